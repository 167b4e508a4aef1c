"""
`-t ext:everyday_openers`: shipped openers about everyday situations.
"""
