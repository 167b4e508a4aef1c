"""
A real browser, driven through its own protocol: keys, clicks, files, closing.

Chromium speaks the DevTools protocol over two pipes (``--remote-debugging-pipe``):
JSON messages that end with a null byte. The page is loaded as a reader would load it,
with its content security policy.
"""

import contextlib
import json
import os
import select
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.waiting import comes_true

BROWSERS = ('chromium', 'chromium-browser', 'google-chrome')
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
MISSING = f'no browser found: {", ".join(BROWSERS)}'
FLAGS = [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--disable-dev-shm-usage',
    '--remote-debugging-pipe',
]
PATIENCE = 60  # seconds; the machine may be busy
KEYS = {
    'Backspace': 8,
    'Enter': 13,
    'End': 35,
    'Home': 36,
    'ArrowLeft': 37,
    'ArrowUp': 38,
    'ArrowRight': 39,
    'ArrowDown': 40,
}
SAVED = ('.json', '.jsonl', '.csv')


# elements that stick out of the window, but for those in something that scrolls
STICKING = """(() => {
  document.querySelectorAll('details').forEach((d) => { d.open = true; });
  const scrolls = (e) => e && (/auto|scroll/.test(getComputedStyle(e).overflowX)
    || scrolls(e.parentElement));
  const width = document.documentElement.clientWidth;
  const outside = [...document.querySelectorAll('body *')].filter((e) => {
    const box = e.getBoundingClientRect();
    return box.width && (box.right > width + 0.5 || box.left < -0.5)
      && !scrolls(e.parentElement) && !e.closest('.unseen');
  });
  return [document.documentElement.scrollWidth, outside.map((e) => e.outerHTML)];
})()"""
AXE = """axe.run({}).then((found) =>
  found.violations.map((v) => v.impact + ' ' + v.id + ': ' + v.nodes[0].html))"""
# opens all there is to open, does all that a reader can, and returns what is then seen
READER = """(async () => {
  let seen = document.body.innerText;
  document.querySelectorAll('#list button').forEach((b) => {
    b.click();
    document.querySelectorAll('details').forEach((d) => {
      d.open = true; d.dispatchEvent(new Event('toggle'));
    });
    seen += document.getElementById('dialogue').textContent + '\\n';
  });
  document.querySelectorAll('a').forEach((a) => a.click());
  document.querySelectorAll('*').forEach((e) => {
    e.dispatchEvent(new Event('mouseover')); if (e.focus) e.focus();
  });
  await new Promise((done) => setTimeout(done, 500));
  return seen;
})()"""


@pytest.fixture(scope='session')
def one_browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp('profile')) as one:
        yield one


@pytest.fixture(scope='module')
def browser(one_browser):
    """
    The browser of all files of tests, of its usual size.
    """
    one_browser.show()
    return one_browser


class Browser:
    """
    A headless browser with one page; what pages keep lies in ``profile``.
    """

    def __init__(self, profile):
        self.profile = profile
        self.downloads = profile / 'downloads'

    def __enter__(self):
        if BROWSER is None:
            pytest.skip(MISSING)
        self.downloads.mkdir(parents=True, exist_ok=True)
        read_end, self.write_to = os.pipe()
        self.read_from, write_end = os.pipe()
        command = [str(BROWSER), *FLAGS, f'--user-data-dir={self.profile / "user"}']
        # the shell gives the browser's ends the numbers 3 and 4 that it expects
        shell = f'exec "$0" "$@" 3<&{read_end} 4>&{write_end}'
        self.process = subprocess.Popen(
            ['bash', '-c', shell, *command],
            pass_fds=(read_end, write_end),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_end)
        os.close(write_end)
        self.number, self.buffer, self.session = 0, b'', None
        target = self.ask('Target.createTarget', url='about:blank')['targetId']
        self.session = self.ask('Target.attachToTarget', targetId=target, flatten=True)[
            'sessionId'
        ]
        self.ask('Page.enable')
        return self

    def __exit__(self, kind, error, trace):
        try:
            # a page that is left first has its storage written
            self.open(None)
            self.session = None
            self.ask('Browser.close')
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self.write_to)
            os.close(self.read_from)

    def ask(self, method, **params):
        """
        Send a command and return its result.
        """
        self.number += 1
        message = {'id': self.number, 'method': method, 'params': params}
        if self.session is not None:
            message['sessionId'] = self.session
        os.write(self.write_to, json.dumps(message).encode() + b'\0')
        while True:
            answer = self._next()
            if answer.get('id') == self.number:
                assert 'error' not in answer, answer
                return answer['result']

    def _next(self):
        while b'\0' not in self.buffer:
            ready, _, _ = select.select([self.read_from], [], [], PATIENCE)
            assert ready, 'the browser does not answer'
            part = os.read(self.read_from, 1 << 20)
            assert part, 'the browser has ended'
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b'\0')
        return json.loads(message)

    def open(self, path, fragment=''):
        """
        Load a file, or an empty page, and wait until it is there.

        :param fragment: of the address, with its ``#``.
        """
        url = path.resolve().as_uri() if path else 'about:blank'
        if fragment:  # the same file with another fragment would not be loaded again
            self.ask('Page.navigate', url='about:blank')
        self.ask('Page.navigate', url=url + fragment)
        self.wait_for('document.readyState === "complete"')

    def evaluate(self, script):
        """
        Return the value of an expression in the page.
        """
        result = self.ask(
            'Runtime.evaluate', expression=script, returnByValue=True, awaitPromise=True
        )
        assert 'exceptionDetails' not in result, result
        return result['result'].get('value')

    def read_all(self, path, policy=False):
        """
        Open a page and return what somebody sees who opens all of it.

        :param policy: obey the content security policy of the page.
        """
        self.show()
        self.ask('Page.setBypassCSP', enabled=not policy)
        self.open(path, '#')
        seen = self.evaluate(READER)
        self.ask('Page.setBypassCSP', enabled=False)
        return seen

    def has_run(self):
        """
        True if an attack ran in the page: it would set ``dataset.ran``.
        """
        return self.evaluate('document.documentElement.dataset.ran') is not None

    def violations(self, part='document'):
        """
        Open all of the page and return what an accessibility engine finds in a part.
        """
        engine = pytest.importorskip('axe_core_python')
        code = (Path(engine.__path__[0]) / 'axe.min.js').read_text('utf-8')
        opened = 'document.querySelectorAll("details").forEach((d) => d.open = 1)'
        self.evaluate(f'{opened};{code};0')
        return self.evaluate(AXE.format(part))

    def wait_for(self, script):
        """
        Wait until an expression is true.
        """
        assert comes_true(lambda: self.evaluate(script)), script

    def press(self, key):
        """
        Press a key as a person does.
        """
        code = KEYS.get(key, ord(key[0]))
        text = {'text': key} if len(key) == 1 else {}
        if key == 'Enter':
            text = {'text': '\r'}
        same = {'key': key, 'windowsVirtualKeyCode': code}
        self.ask('Input.dispatchKeyEvent', type='keyDown', **same, **text)
        self.ask('Input.dispatchKeyEvent', type='keyUp', **same)

    def write(self, text):
        """
        Write a text into the field that has the focus.
        """
        self.ask('Input.insertText', text=text)

    def show(self, width=1100, height=900, scheme='light'):
        """
        Give the page a size and a colour scheme, ``light`` or ``dark``.
        """
        size = {'width': width, 'height': height, 'deviceScaleFactor': 1}
        self.ask('Emulation.setDeviceMetricsOverride', **size, mobile=width < 600)
        feature = {'name': 'prefers-color-scheme', 'value': scheme}
        self.ask('Emulation.setEmulatedMedia', features=[feature])

    def click(self, selector):
        """
        Click an element.
        """
        self.evaluate(f'document.querySelector({json.dumps(selector)}).click()')

    def choose(self, selector, value):
        """
        Choose an option of a list.
        """
        self.evaluate(
            f'(() => {{ const list = document.querySelector({json.dumps(selector)}); '
            f'list.value = {json.dumps(value)}; '
            'list.dispatchEvent(new Event("change")); })()'
        )

    def save(self, selector):
        """
        Click an element that saves a file, and return the file.
        """
        before = self._downloaded()

        def saved():
            new = [path for path, _ in self._downloaded() - before]
            # an empty file of that name comes first, and what is written beside it
            return len(new) == 1 and new[0].suffix in SAVED and new[0].stat().st_size

        session, self.session = self.session, None
        folder = str(self.downloads)
        self.ask('Browser.setDownloadBehavior', behavior='allow', downloadPath=folder)
        self.session = session
        self.click(selector)
        assert comes_true(saved), 'no file was saved'
        [(path, _)] = self._downloaded() - before
        return path

    def _downloaded(self):
        """
        Return the files that were saved, with the time of their last change: a second
        file of one name replaces the first.
        """
        with contextlib.suppress(FileNotFoundError):  # a name that was given up
            return {(p, p.stat().st_mtime_ns) for p in self.downloads.iterdir()}
        return self._downloaded()
