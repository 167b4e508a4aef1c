
  // ------------------------------------------------- the list of dialogues
  const ROWS = 50;
  const SORTS = {
    '': 'best target first', high: 'highest score', low: 'lowest score', opener: 'by opener', long: 'longest',
  };
  let matching = [], page = 0, opened = null;

  // where both speakers are judged, a dialogue is found under either
  const speakerPairs = (d) => d.both ? [[d.target, d.partner], [d.partner, d.target]] : [[d.target, d.partner]];

  const isOf = {
    scored: (d) => valueOf(d) !== null,
    'not scored': (d) => valueOf(d) === null,
    'broken off': (d) => d.ended_by !== null,
  };
  const isWhich = (d) => !state.which || (isOf[state.which] ? isOf[state.which](d) : d.why === state.which);

  const texts = new Map();
  function textOf(d) {
    if (!texts.has(d)) texts.set(d, [d.id, ...d.turns.map((t) => t.text)].join('\n').toLowerCase());
    return texts.get(d);
  }

  function inOrder(dialogues, sort) {
    const best = scorer().best[board()] || [];
    const rank = new Map(best.map((name, k) => [name, k]));
    const last = (v, sign) => v === null ? Infinity : sign * v;
    const rankOf = (d) => rank.has(d.target) ? rank.get(d.target) : best.length;
    const keys = {
      '': (d) => [rankOf(d), last(leadOf(d), -1)],
      high: (d) => [last(leadOf(d), -1), rankOf(d)],
      low: (d) => [last(leadOf(d), 1), rankOf(d)],
      opener: (d) => [d.opener, d.partner, rankOf(d)],
      long: (d) => [-d.turns.length, rankOf(d)],
    };
    const key = keys[sort] || keys[''];
    const before = (a, b) => a === b ? 0 : a < b ? -1 : 1;
    return dialogues.map((d) => [key(d), d]).sort(([a], [b]) => {
      const differing = a.findIndex((part, k) => part !== b[k]);
      return differing < 0 ? 0 : before(a[differing], b[differing]);
    }).map(([, d]) => d);
  }

  function findDialogues() {
    const wanted = state.q.toLowerCase();
    return inOrder(data.dialogues.filter((d) => isWhich(d) && (!wanted || textOf(d).includes(wanted)) && speakerPairs(d).some(
      ([target, partner]) => (!state.target || target === state.target) && (!state.partner || partner === state.partner))), state.sort);
  }

  function listRow(d) {
    const button = make('button');
    const line = make('span', 'line'), below = make('span', 'line soft');
    line.append(make('b', '', d.target), make('span', '', figure(d)));
    below.append(make('span', '', 'with ' + d.partner), make('span', '', d.why || (d.ended_by === null ? '' : 'broken off')));
    button.append(line, below, make('span', 'opening soft', d.turns.length ? d.turns[0].text : ''));
    button.type = 'button';
    if (d === opened) button.setAttribute('aria-current', 'true');
    button.addEventListener('click', () => choose(d));
    const item = make('li');
    item.append(button);
    return item;
  }

  function drawPage() {
    const pages = Math.max(1, Math.ceil(matching.length / ROWS));
    page = Math.min(Math.max(0, page), pages - 1);
    by('list').replaceChildren(...matching.slice(page * ROWS, (page + 1) * ROWS).map(listRow));
    by('page-place').textContent = 'page ' + (page + 1) + ' of ' + pages;
    by('page-before').disabled = page === 0;
    by('page-after').disabled = page + 1 >= pages;
    by('list').parentNode.classList.toggle('single', pages === 1);
  }

  // draws list and dialogue as `state` says; the first dialogue where none is chosen
  function showDialogues() {
    matching = findDialogues();
    by('count').textContent = matching.length + ' of ' + data.dialogues.length + ' dialogues';
    const at = Math.max(0, matching.findIndex((d) => d.id === state.dialogue));
    page = Math.floor(at / ROWS);
    opened = matching[at] || null;
    drawPage();
    if (opened) open(opened);
    else by('dialogue').replaceChildren(make('p', 'meta', 'No dialogue on this page fits.'));
    if (state.dialogue && !data.dialogues.some((d) => d.id === state.dialogue)) {  // of a link
      by('dialogue').prepend(make('p', 'finding doubt', 'Dialogue ' + state.dialogue
        + ' is not on this page; parlai show_dialogue prints it if the run has it.'));
    }
  }

  function choose(d) {
    const inside = by('list').contains(document.activeElement);
    anchor = 'dialogues';
    change({ dialogue: d.id });
    const current = by('list').querySelector('[aria-current]');
    current.scrollIntoView({ block: 'nearest' });
    if (inside) current.focus();
  }

  function step(count) {
    const at = matching.indexOf(opened) + count;
    const next = matching[Math.min(matching.length - 1, Math.max(0, at))];
    if (next) choose(next);
  }

  function turnPage(count) {
    page += count;
    drawPage();
    by('list').scrollTop = 0;
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT)$/.test(event.target.tagName)) return;
    const inList = by('list').contains(event.target);
    const steps = { j: 1, k: -1, ...(inList ? { ArrowDown: 1, ArrowUp: -1, End: Infinity, Home: -Infinity } : {}) };
    if (event.key === '/') { event.preventDefault(); by('filter-text').focus(); return; }
    if (!(event.key in steps)) return;
    event.preventDefault();
    step(steps[event.key]);
  }
