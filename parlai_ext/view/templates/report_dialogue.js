
  // ------------------------------------------------- one dialogue
  function chips(scores) {
    const box = make('div', 'chips');
    const without = new Map();
    scores.forEach((v, i) => {
      const name = scorer().dimensions[i];
      if (v === null) return;
      if (typeof v !== 'number') {
        without.set(v, [...(without.get(v) || []), name]);
        return;
      }
      const one = make('span', v === 0 ? 'zero' : '');
      one.append(make('span', '', name + ' '), make('b', '', shown(v, scorer().digits[i])));
      box.append(one);
    });
    without.forEach((names, why) => {
      const joint = why.startsWith('not ') ? ' ' : ' not scored: ';
      box.append(make('span', '', names.join(', ') + joint + why));
    });
    return box;
  }

  // one scale for all dialogues of a scorer, so that bars of different utterances compare
  const scales = new Map();
  function scale() {
    if (!scales.has(scorer())) {
      let low = Infinity, high = -Infinity;
      data.dialogues.forEach((d) => Object.values((scoredBy(d) || { turns: {} }).turns).forEach((t) => t.evidence.forEach((v) => {
        if (v !== null) { low = Math.min(low, v); high = Math.max(high, v); }
      })));
      scales.set(scorer(), [low, high]);
    }
    return scales.get(scorer());
  }

  function evidence(values) {
    const box = make('details');
    const { labels, evidence: about } = scorer();
    const [low, high] = scale();
    box.append(make('summary', '', values.length === 1 ? 'the number behind it' : 'the ' + values.length + ' numbers behind it'));
    box.addEventListener('toggle', () => {
      if (box.children.length > 1) return;
      const table = make('table', 'evidence');
      values.forEach((v, i) => {
        const row = table.insertRow();
        const label = make('th', '', labels[i] === undefined ? '#' + (i + 1) : labels[i]);
        label.scope = 'row';
        const bar = make('div');
        bar.style.width = (v === null ? 0 : 4 + 96 * (high > low ? (v - low) / (high - low) : 1)) + '%';
        const cell = row.insertCell();
        cell.className = 'bar';
        cell.append(bar);
        const figure = row.insertCell();
        figure.className = 'num';
        figure.textContent = v === null ? '–' : shown(v);
        row.append(label);
      });
      box.append(make('p', 'meta', about), table);
    });
    return box;
  }

  // a text with what was searched for marked in it
  function bubble(text) {
    const box = make('div', 'bubble');
    box.dir = 'auto';
    const wanted = state.q.toLowerCase(), low = text.toLowerCase();
    let from = 0;
    // where lower case has another length, places do not fit
    while (wanted && low.length === text.length && low.indexOf(wanted, from) >= 0) {
      const at = low.indexOf(wanted, from);
      box.append(text.slice(from, at), make('mark', '', text.slice(at, at + wanted.length)));
      from = at + wanted.length;
    }
    box.append(text.slice(from));
    return box;
  }

  const scoredTurn = (d, k) => ((scoredBy(d) || { turns: {} }).turns[k]) || { scores: [], evidence: [], marks: [] };
  const speaker = (d, t) => t.first ? d.target : d.partner;

  function turn(d, t, k) {
    const box = make('div', 'turn ' + (t.first ? 'target' : 'partner') + (t.given ? ' given' : ''));
    const own = scoredTurn(d, k);
    box.append(make('p', 'who', speaker(d, t) + ' · turn ' + k + (t.given ? ' · given' : '')));
    box.append(bubble(t.text));
    own.marks.forEach((m) => {
      box.classList.add(m.bonus ? 'bonus' : 'penalty');
      const line = make('p', 'mark ' + (m.bonus ? 'bonus' : 'penalty'));
      line.append(make('b', '', (m.bonus ? '+1 ' : '\u22121 ') + m.dimension), make('span', '', ': ' + m.words));
      if (m.turn !== null) line.append(make('q', '', d.turns[m.turn].text));
      box.append(line);
    });
    if (own.scores.some((v) => v !== null)) box.append(chips(own.scores));
    if (own.evidence.length) box.append(evidence(own.evidence));
    return box;
  }

  // of a game its points, of any other dialogue its mean score
  const won = (d) => (scoredBy(d) || {}).won;
  const leadOf = (d) => won(d) ? won(d)[0].length - won(d)[1].length : valueOf(d);
  function figure(d) {
    if (won(d)) return won(d).map((of) => of.length).join('\u2013');
    return valueOf(d) === null ? '–' : shown(valueOf(d), digits());
  }

  function outcome(d) {
    if (!won(d)) return valueOf(d) === null ? 'not scored' : 'mean ' + dimension() + ' ' + figure(d);
    const side = (name, of) => name + (of.length ? ' (' + of.join(', ') + ')' : '');
    return 'points ' + figure(d) + ': ' + side(d.target, won(d)[0]) + ' \u2013 ' + side(d.partner, won(d)[1]);
  }

  function ending(d) {
    return make('p', 'broken', 'Broken off by ' + d.ended_by + ': ' + (d.reason || 'no reason given'));
  }

  function single(d) {
    const box = make('div');
    const { whole, whole_partner: other } = scoredBy(d) || { whole: [], whole_partner: [] };
    [[d.target, whole], [d.partner, other]].forEach(([name, scores]) => {
      if (!scores.some((v) => v !== null)) return;
      if (other.length) box.append(make('p', 'who', name + ', the whole dialogue'));
      box.append(chips(scores));
    });
    d.turns.forEach((t, k) => box.append(turn(d, t, k)));
    if (d.ended_by !== null) box.append(ending(d));
    return box;
  }

  // ------------------------------------------------- several systems side by side
  const withItself = (d) => d.partner === d.target;

  // the dialogues of other targets over the same opener with the same partner
  function peers(d) {
    const seen = new Set([d.target]);
    return !d.opener ? [] : inOrder(data.dialogues.filter((o) => o.opener === d.opener && !seen.has(o.target)
      && (o.partner === d.partner || (withItself(o) && withItself(d))) && seen.add(o.target)), '');
  }

  // the difference of two dialogues in words; points of games are no such thing
  const gap = (d, base) => won(d) ? '' : difference(valueOf(d), valueOf(base));

  // the difference of two scores in words, '' where one is missing
  function difference(v, base) {
    if (typeof v !== 'number' || typeof base !== 'number') return '';
    return ' (' + signed(v - base, digits()) + ')';
  }

  function choices(d, others) {
    const box = make('fieldset', 'beside');
    box.append(make('legend', '', 'Beside it, on the same opener' + (withItself(d) ? '' : ' and with the same partner')));
    others.forEach((o) => {
      const label = make('label');
      const input = make('input');
      input.type = 'checkbox';
      input.value = o.target;
      input.checked = state.beside.includes(o.target);
      input.addEventListener('change', () => {
        const rest = state.beside.filter((name) => name !== o.target);
        change({ beside: input.checked ? [...rest, o.target] : rest });
        [...document.querySelectorAll('.beside input')].find((i) => i.value === o.target).focus();
      });
      label.append(input, make('span', '', o.target + ' ' + figure(o) + gap(o, d)));
      box.append(label);
    });
    return box;
  }

  function columns(shownHere) {
    const scroll = make('div', 'scroll');
    scroll.tabIndex = 0;
    scroll.setAttribute('role', 'region');
    scroll.setAttribute('aria-label', 'Side by side');
    const table = make('table', 'side');
    const head = table.createTHead().insertRow();
    const base = shownHere[0];
    const corner = make('th', '', 'Turn');
    corner.scope = 'col';
    head.append(corner);
    shownHere.forEach((d) => {
      const cell = make('th');
      cell.scope = 'col';
      cell.append(make('b', '', d.target), make('span', '', outcome(d) + (d === base ? '' : gap(d, base))));
      head.append(cell);
    });
    const body = table.createTBody();
    for (let k = 0; k < Math.max(...shownHere.map((d) => d.turns.length)); k += 1) {
      const row = body.insertRow();
      const name = make('th', '', String(k));
      name.scope = 'row';
      row.append(name);
      shownHere.forEach((d) => {
        const cell = row.insertCell(), t = d.turns[k];
        if (!t) return;
        cell.className = t.given ? 'given' : t.first ? 'target' : 'partner';
        cell.append(make('p', 'who', speaker(d, t) + (t.given ? ' · given' : '')), bubble(t.text));
        const value = scoredTurn(d, k).scores[place()];
        if (typeof value !== 'number') return;
        const other = d === base ? null : scoredTurn(base, k).scores[place()];
        cell.append(make('p', 'chips', dimension() + ' ' + shown(value, digits()) + difference(value, other)));
      });
    }
    if (shownHere.some((d) => d.ended_by !== null)) {
      const row = body.insertRow();
      row.insertCell();
      shownHere.forEach((d) => { const cell = row.insertCell(); if (d.ended_by !== null) cell.append(ending(d)); });
    }
    scroll.append(table);
    return scroll;
  }

  function open(d) {
    const box = by('dialogue');
    box.replaceChildren(make('h3', '', d.target + ' with ' + d.partner));
    box.append(make('p', 'meta', outcome(d) + (d.why ? ' · chosen as ' + d.why : '') + ' · ' + d.id));
    const others = peers(d);
    if (others.length) box.append(choices(d, others));
    const chosen = others.filter((o) => state.beside.includes(o.target));
    box.append(chosen.length ? columns([d, ...chosen]) : single(d));
  }
