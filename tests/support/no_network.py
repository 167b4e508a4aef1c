"""
A machine without a network.
"""

import httpx2

from parlai_ext.systems.fetch.checked_downloads import FileDownload


def refuse_connections(monkeypatch):
    """
    Let no HTTP connection come about; return the list of the addresses asked.
    """
    asked = []

    def refuse(self, request):
        asked.append(str(request.url))
        raise httpx2.ConnectTimeout('no\nroute')

    async def refuse_later(self, request):
        refuse(self, request)

    monkeypatch.setattr(httpx2.HTTPTransport, 'handle_request', refuse)
    monkeypatch.setattr(httpx2.AsyncHTTPTransport, 'handle_async_request', refuse_later)
    return asked


def downloads_give(monkeypatch, content):
    """
    Let every download give the bytes ``content(url)``.
    """

    def request(download):
        download.data.write_bytes(content(download.url))

    monkeypatch.setattr(FileDownload, '_request_missing', request)
