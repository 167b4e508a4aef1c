"""
A hundred strings that somebody could put where a system's words or a name are shown.

Each has a number. Where it is a script, running it puts that number into the page's
data set; where it is an address, that is ``http://canary.invalid/NUMBER``.
"""

CANARY = 'http://canary.invalid'
RAN = 'ran'  # begins the names in the data set of a page's root
OWNED = 'owned'  # what a terminal's title, clipboard or link would be


def _scripts(number: int) -> list[str]:
    run = f'document.documentElement.dataset.{RAN}{number}=1'
    site = f'{CANARY}/{number}'
    return [
        f'<script>{run}</script>',
        f'</script><script>{run}</script>',
        f'</ScRiPt ><script>{run}</script>',
        f'<!--<script>--><script>{run}</script>',
        f'--><script>{run}</script>',
        f']]><script>{run}</script>',
        f'<img src=x onerror={run}>',
        f'"><img src=x onerror={run}>',
        f"'><img src=x onerror='{run}'>",
        f'<img src={site}>',
        f'<img srcset="{site} 2x">',
        f'<svg onload={run}>',
        f'<svg><script>{run}</script></svg>',
        f'<svg><a xlink:href="javascript:{run}"><text y=9>x</text></a></svg>',
        f'<svg><animate onbegin={run} attributeName=x dur=1s>',
        f'<svg><use href="data:image/svg+xml,<svg id=x onload={run}>#x"/></svg>',
        f'</svg><script>{run}</script>',
        f'</style><script>{run}</script>',
        f'</title><script>{run}</script>',
        f'</textarea><script>{run}</script>',
        f'</table><script>{run}</script>',
        f'</noscript><script>{run}</script>',
        f'</code></pre><script>{run}</script>',
        f'</template><script>{run}</script>',
        f'<body onload={run}>',
        f'<details open ontoggle={run}>x',
        f'<video><source onerror={run}></video>',
        f'<audio src=x onerror={run}>',
        f'<input autofocus onfocus={run}>',
        f'<iframe srcdoc="<script>parent.{run}</script>"></iframe>',
        f'<iframe src="javascript:parent.{run}"></iframe>',
        f'<iframe src={site}></iframe>',
        f'<object data="javascript:{run}"></object>',
        f'<embed src="javascript:{run}">',
        f'<a href="javascript:{run}">click</a>',
        f'<a href={site} ping={site}>click</a>',
        f'javascript:{run}',
        f'<form action="javascript:{run}"><input type=submit></form>',
        f'<button formaction="javascript:{run}">x</button>',
        f'<math><mtext><script>{run}</script></mtext></math>',
        f'<marquee onstart={run}>x</marquee>',
        f'<meta http-equiv=refresh content="0;url={site}">',
        f'<base href="{site}/">',
        f'<link rel=stylesheet href={site}>',
        f'<link rel=prefetch href={site}>',
        f'<style>@import "{site}"; body {{ display: none }}</style>',
        f'"style="background:url({site})"',
        f'"onmouseover="{run}"x="',
        f"' autofocus onfocus='{run}' x='",
        f'{{{{ {run} }}}}',
        '{{ 7 * 7 }}{% for x in range(9) %}x{% endfor %}',
        f'${{{run}}}',
        f'<%= {run} %>',
        '{{ config.__class__.__init__.__globals__ }}',
        '{0.__class__.__mro__}%(x)s%n%s$HOME`id`',
        f'\\u003cscript\\u003e{run}\\u003c/script\\u003e',
        f'\\x3cscript\\x3e{run}\\x3c/script\\x3e',
        f'&lt;script&gt;{run}&lt;/script&gt;',
        f'&#60;script&#62;{run}&#60;/script&#62;',
        '&amp;amp;&nbsp;&#0;&unknown;',
        f'\\";{run};//',
        f"\\';{run};//",
        f'"}}]}};{run};//',
        f'</script\u2028><script>{run}</script>',
        f'\u2028{run}\u2029//',
        f'<scr\x00ipt>{run}</scr\x00ipt>',
        f'\u202e<script>{run}</script>',
        f'\ufeff<script>{run}</script>',
        f'\uff1cscript\uff1e{run}\uff1c/script\uff1e',
        f'<x contenteditable onblur={run}>lose focus</x>',
        f'<style onload={run}></style>',
        f'<dialog open oncancel={run}><form method=dialog>',
    ]


def _texts() -> list[str]:
    esc, bell, end = '\x1b', '\a', '\x1b\\'
    return [
        # what terminals obey
        f'{esc}]0;{OWNED}{bell}tea',
        f'{esc}]2;{OWNED}{end}tea',
        f'\x9d0;{OWNED}\x9ctea',
        f'{esc}]52;c;b3duZWQ={bell}tea',
        f'{esc}Ptmux;{esc}{esc}]52;c;b3duZWQ={bell}{end}tea',
        f'{esc}]8;;{CANARY}{end}{OWNED}{esc}]8;;{end}tea',
        f'{esc}[2J{esc}[H{esc}[3Jtea',
        f'{esc}[?25l{esc}[?1049h{esc}[?1003h{esc}[?2004htea',
        f'{esc}[31;5;7mtea',
        f'{esc}[6n{esc}[c{esc}]10;?{bell}{esc}[21ttea',
        f'{esc}c{esc}(0{esc}#8\x0etea',
        f'{esc}[1;3r{esc}[4h{esc}[20h{esc}k{OWNED}{end}tea',
        '\r\x1b[Kerror: all is well\b\b\b\b\x7f\x0b\x0c\x85',
        # what editors, spreadsheets and tables obey
        '\u202etxt.exe\u2066 tea \u2069\u200f\u061c',
        'te\u200ba\u200c\u200d\u2060\ufeff\u00ad\u034f\u180e',
        '=HYPERLINK("http://canary.invalid","tea")',
        "+cmd|' /C calc'!A0",
        '@SUM(1+1)*cmd|x',
        '-2+3;"\t=1',
        'x' * 3000,
        'word ' * 700,
        '\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466\U0001f3fd\u200d\u2642\ufe0f',
        'Z' + '\u0300\u0301\u0302\u0315\u0322\u0489' * 60 + 'algo',
        'tea\x00and\x00rain\x01\x02\x1f',
        '"a","b"\r\n"c",d\n;\t|',
        '../../../../etc/passwd\\..\\x:y*?<>|',
        '{"id": "x", "checksum": "0"}\n{"of": 1}\n',
        '\ue000\uffff\U0010ffff\ufdd0\ufff9x\ufffa',
    ]


STRINGS = (*(_scripts(k)[k] for k in range(len(_scripts(0)))), *_texts())
