"""
The training of the mini zoo, whose models are shipped: recipe, examples, trainer.
"""
