"""
Every page of the program with hostile strings in all places that others can fill, and
what a real browser makes of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from parlai_ext.bench.compare import compare_bench
from parlai_ext.bench.page import render_bench_page, render_comparison_page
from parlai_ext.bench.plan import BenchPlan, Variant
from parlai_ext.bench.run_bench import run_bench
from parlai_ext.commands.rate_dialogues import RateDialogues
from parlai_ext.data.recorded_answers import RecordedAnswer
from parlai_ext.report.write import write_report
from parlai_ext.toxic.comparison import Examples, SystemAnswers, compare_answers
from parlai_ext.toxic.comparison_table import render_safety_page
from parlai_ext.toxic.measures import MeasuredAnswer, Prompt
from tests.support.bench_samples import judged_set
from tests.support.browser import Browser
from tests.support.report_example import example_ranking, example_run
from torture.hostile_strings import CANARY, RAN
from torture.tiny_run import quiet

COUNTED = 'tests.support.bench_samples:Counted'
# the texts of the samples that each kind of small page shows
PLACES = {
    'bench': ('first', 'second', 'third'),
    'comparison': ('first', 'second', 'third'),
    'safety': ('first', 'second', 'fourth', 'fifth', 'sixth'),
}
# what an attribute may do
ACTIVE = 'src srcset href xlink:href action formaction data srcdoc ping style content'
# opens all there is to open and returns every text that a reader can see by then
READ = """(() => {
  const seen = new Set();
  const look = (root) => {
    root.querySelectorAll('details').forEach((d) => {
      d.open = true; d.dispatchEvent(new Event('toggle'));
    });
    root.querySelectorAll('*').forEach((e) => {
      if (e.tagName === 'SCRIPT' || e.tagName === 'STYLE') return;
      e.dispatchEvent(new Event('mouseover'));
      if (e.focus && e.tabIndex >= 0) e.focus();
      e.childNodes.forEach((n) => { if (n.nodeType === 3) seen.add(n.data); });
    });
  };
  look(document.body);
  const after = document.getElementById('page-after');
  for (let go = true; go; ) {
    document.querySelectorAll('#list button').forEach((b) => {
      b.click(); look(document.getElementById('dialogue'));
    });
    go = after && !after.disabled;
    if (go) after.click();
  }
  return [...seen];
})()"""
# attributes that would do something
ATTRIBUTES = f"""[...document.querySelectorAll('*')].flatMap((e) => [...e.attributes]
  .filter((a) => a.name.startsWith('on')
    || {json.dumps(ACTIVE.split())}.includes(a.name))
  .map((a) => a.name + '=' + a.value.slice(0, 300)))"""


@dataclass(frozen=True)
class SeenPage:
    """
    What a browser made of a page.

    :param texts: that a reader sees, hidden characters told by their stand-ins.
    :param ran: names in the data set of the root, one for each script that ran.
    :param attributes: of its elements, as far as they could do something.
    :param asked: addresses that were asked besides the page's own.
    """

    name: str
    texts: tuple[str, ...]
    ran: tuple[str, ...]
    attributes: tuple[str, ...]
    asked: tuple[str, ...]

    def problem(self, number: int, text: str, shown: bool) -> str:
        """
        Return what is wrong with one string on this page; '' if nothing is.

        :param shown: whether a reader must see it.
        """
        if f'{RAN}{number}' in self.ran:
            return f'{self.name}: a script ran'
        if any(re.search(rf'{CANARY}/{number}\b', url) for url in self.asked):
            return f'{self.name}: an address was asked'
        marks = f'{RAN}{number}=', f'{CANARY}/{number}'
        if any(mark in one for one in self.attributes for mark in marks):
            return f'{self.name}: it became an element'
        if shown and not any(text in seen for seen in self.texts):
            return f'{self.name}: it is not shown as it is'
        return ''


class WatchedBrowser(Browser):
    """
    A browser that remembers which addresses its page asks, and obeys no policy of a
    page, so that only escaping keeps scripts from running.
    """

    def __enter__(self) -> WatchedBrowser:
        self.asked: list[str] = []
        super().__enter__()
        self.ask('Network.enable')
        self.ask('Page.setBypassCSP', enabled=True)
        return self

    def _next(self) -> dict[str, Any]:
        message = super()._next()
        if message.get('method') == 'Network.requestWillBeSent':
            self.asked.append(message['params']['request']['url'])
        return message

    def rate(self, path: Path, name: str) -> SeenPage:
        """
        Begin a page for annotators under a name, and return what came of it.
        """
        self.open(path)
        self.evaluate(f"document.getElementById('name').value = {json.dumps(name)}")
        self.press('Enter')
        return self.see(path)

    def see(self, path: Path) -> SeenPage:
        """
        Do all that a reader of the open page can, and return what came of it.
        """
        seen = self.evaluate(READ)
        self.wait_for('new Promise((then) => setTimeout(() => then(true), 50))')
        own = path.resolve().as_uri()
        return SeenPage(
            path.parent.name,
            tuple(without_stand_ins(text) for text in seen),
            tuple(self.evaluate('Object.keys(document.documentElement.dataset)')),
            tuple(self.evaluate(ATTRIBUTES)),
            tuple(
                url
                for url in self.asked
                if url.partition('#')[0] != own and not url.startswith('data:')
            ),
        )

    def open(self, path: Path | None) -> None:
        """
        Load a page; what others asked is forgotten.
        """
        self.asked = []
        super().open(path)


def without_stand_ins(shown: str) -> str:
    """
    Return the text that a page shows: the characters in the place of their visible
    stand-ins.
    """
    shown = re.sub('[\u2400-\u241f]', lambda m: chr(ord(m[0]) - 0x2400), shown)
    shown = shown.replace('\u2421', '\x7f')
    return re.sub('⟨U\\+([0-9A-F]{4,6})⟩', lambda m: chr(int(m[1], 16)), shown)


def write_pages(folder: Path, strings: Mapping[int, str]) -> dict[Path, set[int]]:
    """
    Write every page that needs no hand to be read; return the strings that each has.
    """
    with quiet():
        reports = [
            report_of_names(folder / 'names', [*strings.values()]),
            report_of_words(folder / 'words', [*strings.values()]),
        ]
    pages = {report: set(strings) for report in reports}
    samples = sample_pages(folder / 'samples')
    numbers = list(strings)
    for kind, places in PLACES.items():
        for start in range(0, len(numbers), len(places)):
            some = (numbers[start:] + numbers)[: len(places)]
            some += numbers[:1] * (len(places) - len(some))  # of few strings
            new = dict(zip(places, (strings[number] for number in some), strict=True))
            path = folder / f'{kind}-{start}' / 'page.html'
            path.parent.mkdir()
            path.write_text(samples[kind](new), encoding='utf-8')
            pages[path] = set(some)
    return pages


def report_of_names(folder: Path, names: list[str]) -> Path:
    """
    Write a report in which every string is the name of a system.
    """
    run = example_run(folder, targets=names, partners=['cem'], openers=['hello'])
    ranking = example_ranking(names, names[:1], names[-1], notes=tuple(names))
    return write_report(run, replace(ranking, protocol=names[0]))


def report_of_words(folder: Path, words: list[str]) -> Path:
    """
    Write a report in which every string is said, is an opener and is a reason.
    """
    run = example_run(folder, openers=words, lines=words, num_turns=4, reason=words[0])
    return write_report(run, example_ranking())


def sample_pages(folder: Path) -> dict[str, Callable[[Mapping[str, str]], str]]:
    """
    Return functions that give the small pages with other texts in the place of some: of
    a small bench, of the comparison of its scorers, and of the comparison of answers.
    """
    variants = [
        Variant(name, {'name': COUNTED, 'factor': float(k + 1)})
        for k, name in enumerate(('first', 'second'))
    ]
    sets = {'third': judged_set('third')}
    with quiet():
        plan = BenchPlan(tuple(variants))
        bench, *_ = run_bench(plan, sets, folder, bootstraps=20)
        comparison = compare_bench(folder)
    prompts = [Prompt(str(k), 'fifth') for k in range(4)]
    systems = []
    for name in ('first', 'second'):
        answer = RecordedAnswer(name, 'fifth', 'sixth')
        answers = {
            prompt.id: [MeasuredAnswer(answer, {'fourth': float(k % 2)})]
            for k, prompt in enumerate(prompts)
        }
        systems.append(SystemAnswers(name, answers))
    safety = compare_answers(prompts, systems, ['fourth'], bootstraps=20)
    examples = [Examples('first', 'fourth', 9, [('fifth', 'sixth')])]
    return {
        'bench': lambda new: render_bench_page(renamed(bench, new)),
        'comparison': lambda new: render_comparison_page(renamed(comparison, new)),
        'safety': lambda new: render_safety_page(
            renamed(safety, new), renamed(examples, new)
        ),
    }


def renamed(data: Any, new: Mapping[str, str]) -> Any:
    """
    Return a record with other texts in the place of some, wherever they are.
    """
    if isinstance(data, str):
        return new.get(data, data)
    if is_dataclass(data) and not isinstance(data, type):
        values = {f.name: getattr(data, f.name) for f in fields(data) if f.init}
        return replace(data, **{k: renamed(v, new) for k, v in values.items()})
    if isinstance(data, Mapping):
        return {renamed(k, new): renamed(v, new) for k, v in data.items()}
    if isinstance(data, list | tuple) and type(data) in (list, tuple):
        return type(data)(renamed(value, new) for value in data)
    return data


def rating_page(folder: Path, strings: Mapping[int, str]) -> Path:
    """
    Write a page for annotators on whose first dialogue every string is said.
    """
    words = list(strings.values())
    with quiet():
        example_run(
            folder, ['a', 'b'], ['c'], [words[0], 'hello'], words, len(words) + 2
        )
        (page,) = RateDialogues.main(
            run_dir=str(folder),
            questionnaire='likert_2022',
            ask=('Overall',),
            num_items=1,
        )
    return Path(page)


def see_pages(
    folder: Path, strings: Mapping[int, str]
) -> list[tuple[SeenPage, set[int]]]:
    """
    Let a browser read every page; return what it made of each, with the numbers of the
    strings that the page has.
    """
    pages = write_pages(folder, strings)
    rating = rating_page(folder / 'rating', strings)
    seen = []
    with WatchedBrowser(folder / 'profile') as browser:
        for path, numbers in pages.items():
            browser.open(path)
            seen.append((browser.see(path), numbers))
        # an annotator has a string as a name; the page shows names nowhere
        for name in strings.values():
            seen.append((browser.rate(rating, name), set()))
        seen.append((browser.rate(rating, 'Ann'), set(strings)))
    return seen
