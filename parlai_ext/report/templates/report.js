'use strict';
(function () {
  const data = JSON.parse(document.getElementById('data').textContent);
  const by = (id) => document.getElementById(id);

  // every text goes in as a text node: nothing a system said is ever parsed as HTML
  function make(tag, cls, text) {
    const node = document.createElement(tag);
    if (cls) node.className = cls;
    if (text !== undefined) { node.textContent = text; node.dir = 'auto'; }
    return node;
  }
  const shown = (v) => v.toFixed(2).replace('-', '\u2212').replace(/^\u2212(0\.0+)$/, '$1');

  function tabs() {
    const panels = [...document.querySelectorAll('.panel')];
    const links = [...document.querySelectorAll('.tabs a')];
    if (!links.length) return;
    by('leaderboard').classList.add('tabbed');
    const show = (k) => {
      panels.forEach((p, i) => { p.hidden = i !== k; });
      links.forEach((a, i) => i === k ? a.setAttribute('aria-current', 'true') : a.removeAttribute('aria-current'));
    };
    links.forEach((a, i) => a.addEventListener('click', (e) => { e.preventDefault(); show(i); }));
    show(Math.max(0, panels.findIndex((p) => '#' + p.id === location.hash)));
  }

  function chips(scores) {
    const box = make('div', 'chips');
    const without = new Map();
    scores.forEach((v, i) => {
      if (v === null) return;
      if (typeof v !== 'number') {
        without.set(v, [...(without.get(v) || []), data.dimensions[i]]);
        return;
      }
      const one = make('span', v === 0 ? 'zero' : '');
      one.append(make('span', '', data.dimensions[i] + ' '), make('b', '', shown(v)));
      box.append(one);
    });
    without.forEach((names, why) => {
      const joint = why.startsWith('not ') ? ' ' : ' not scored: ';
      box.append(make('span', '', names.join(', ') + joint + why));
    });
    return box;
  }

  // one scale for the whole page, so that bars of different utterances compare
  let low = Infinity, high = -Infinity;
  data.dialogues.forEach((d) => d.turns.forEach((t) => t.evidence.forEach((v) => {
    if (v !== null) { low = Math.min(low, v); high = Math.max(high, v); }
  })));

  function evidence(values) {
    const box = make('details');
    box.append(make('summary', '', values.length === 1 ? 'the number behind it' : 'the ' + values.length + ' numbers behind it'));
    box.addEventListener('toggle', () => {
      if (box.children.length > 1) return;
      const table = make('table', 'evidence');
      values.forEach((v, i) => {
        const row = table.insertRow();
        const bar = make('div');
        bar.style.width = (v === null ? 0 : 4 + 96 * (high > low ? (v - low) / (high - low) : 1)) + '%';
        const cell = row.insertCell();
        cell.className = 'bar';
        cell.append(bar);
        const figure = row.insertCell();
        figure.className = 'num';
        figure.textContent = v === null ? '–' : shown(v);
        const label = row.insertCell();
        label.dir = 'auto';
        label.textContent = data.labels[i] === undefined ? '#' + (i + 1) : data.labels[i];
      });
      box.append(make('p', 'meta', data.evidence), table);
    });
    return box;
  }

  function turn(t, d, k) {
    const box = make('div', 'turn ' + (t.first ? 'target' : 'partner') + (t.given ? ' given' : ''));
    const name = (t.first ? d.target : d.partner) + ' · turn ' + k;
    box.append(make('p', 'who', name + (t.given ? ' · given' : '')));
    box.append(make('div', 'bubble', t.text));
    t.marks.forEach((m) => {
      box.classList.add(m.bonus ? 'bonus' : 'penalty');
      const line = make('p', 'mark ' + (m.bonus ? 'bonus' : 'penalty'));
      line.append(make('b', '', (m.bonus ? '+1 ' : '\u22121 ') + m.dimension), make('span', '', ': ' + m.words));
      if (m.turn !== null) line.append(make('q', '', d.turns[m.turn].text));
      box.append(line);
    });
    if (t.scores.some((v) => v !== null)) box.append(chips(t.scores));
    if (t.evidence.length) box.append(evidence(t.evidence));
    return box;
  }

  // of a game its points, of any other dialogue its mean score
  const figure = (d) => d.won ? d.won.map((of) => of.length).join('\u2013') : d.value === null ? '–' : shown(d.value);

  function outcome(d) {
    if (!d.won) return d.value === null ? 'not scored' : 'mean ' + data.dimensions[0] + ' ' + shown(d.value);
    const side = (name, of) => name + (of.length ? ' (' + of.join(', ') + ')' : '');
    return 'points ' + figure(d) + ': ' + side(d.target, d.won[0]) + ' \u2013 ' + side(d.partner, d.won[1]);
  }

  function open(d) {
    const box = by('dialogue');
    box.replaceChildren(make('h3', '', d.target + ' with ' + d.partner));
    box.append(make('p', 'meta', outcome(d) + ' · chosen as ' + d.why + ' · ' + d.id));
    [[d.target, d.whole], [d.partner, d.whole_partner]].forEach(([name, scores]) => {
      if (!scores.some((v) => v !== null)) return;
      if (d.whole_partner.length) box.append(make('p', 'who', name + ', the whole dialogue'));
      box.append(chips(scores));
    });
    d.turns.forEach((t, k) => box.append(turn(t, d, k)));
    if (d.ended_by !== null) {
      box.append(make('p', 'broken', 'Broken off by ' + d.ended_by + ': ' + (d.reason || 'no reason given')));
    }
  }

  function fill(select, values) {
    ['all', ...values].forEach((v, i) => {
      const option = make('option', '', v);
      option.value = i ? v : '';
      select.append(option);
    });
    select.addEventListener('change', () => list());
  }

  // where both speakers are judged, a dialogue is found under either
  const speakerPairs = (d) => d.both ? [[d.target, d.partner], [d.partner, d.target]] : [[d.target, d.partner]];

  function list(wanted) {
    const chosen = { target: by('filter-target').value, partner: by('filter-partner').value, why: by('filter-why').value };
    const matching = data.dialogues.filter((d) => (!chosen.why || d.why === chosen.why) && speakerPairs(d).some(
      ([target, partner]) => (!chosen.target || target === chosen.target) && (!chosen.partner || partner === chosen.partner)));
    by('count').textContent = matching.length + ' of ' + data.dialogues.length;
    const box = by('list');
    box.replaceChildren();
    const select = (d, button) => {
      box.querySelectorAll('[aria-current]').forEach((b) => b.removeAttribute('aria-current'));
      button.setAttribute('aria-current', 'true');
      open(d);
    };
    let first = null;
    matching.forEach((d) => {
      const button = make('button');
      const line = make('span', 'line');
      line.append(make('b', '', d.target), make('span', '', figure(d)));
      const below = make('span', 'line soft');
      below.append(make('span', '', 'with ' + d.partner), make('span', '', d.why));
      button.append(line, below);
      button.type = 'button';
      button.addEventListener('click', () => { history.replaceState(null, '', '#dialogue-' + d.id); select(d, button); });
      const item = make('li');
      item.append(button);
      box.append(item);
      if (!first || d.id === wanted) first = [d, button];
    });
    if (first) select(...first);
    else by('dialogue').replaceChildren(make('p', 'meta', 'No dialogue on this page fits.'));
  }

  const distinct = (values) => [...new Set(data.dialogues.flatMap(values))];
  tabs();
  fill(by('filter-target'), distinct((d) => speakerPairs(d).map((s) => s[0])));
  fill(by('filter-partner'), distinct((d) => speakerPairs(d).map((s) => s[1])));
  fill(by('filter-why'), distinct((d) => d.why));
  by('browser').hidden = false;
  const wanted = location.hash.startsWith('#dialogue-') ? location.hash.slice(10) : undefined;
  list(wanted);
  if (wanted) by('dialogues').scrollIntoView();
})();
