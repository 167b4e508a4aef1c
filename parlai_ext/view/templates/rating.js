'use strict';
(function () {
  const data = JSON.parse(document.getElementById('data').textContent);
  const by = (id) => document.getElementById(id);
  const pair = data.kind === 'pair';
  // beside the dimensions of an item's answers, none of which begins with a blank
  const FLAGS = ' flags', CHANGED = ' changed';
  let revealed = ''; // the item whose texts are shown, where texts may be offensive
  let annotator = '', order = [], answers = {}, place = 0, asked = 0, shownAt = 0;

  // every text goes in as a text node: nothing a system said is ever parsed as HTML
  function make(tag, cls, text) {
    const node = document.createElement(tag);
    if (cls) node.className = cls;
    if (text !== undefined) { node.textContent = text; node.dir = 'auto'; }
    return node;
  }

  // ------------------------------------------------- chance that a name decides
  // the same name meets the same order and sides again, so that a page can be closed
  function randomOf(seed) {
    let state = 2166136261;
    for (const char of seed) state = Math.imul(state ^ char.codePointAt(0), 16777619);
    return function () { // mulberry32
      state = (state + 0x6d2b79f5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  function drawOrder(name) {
    const random = randomOf(data.rating_set + '/' + data.page + '/' + name);
    const drawn = data.items.map((item) => ({ item: item, left: pair && random() < 0.5 ? 'b' : 'a' }));
    for (let i = drawn.length - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1));
      [drawn[i], drawn[j]] = [drawn[j], drawn[i]];
    }
    return drawn;
  }

  // ------------------------------------------------- what this browser keeps
  const cell = (name) => 'parlai_ext ratings/' + data.rating_set + '/' + data.page + '/' + name;

  function keep() {
    try {
      localStorage.setItem(cell(annotator), JSON.stringify(answers));
      localStorage.setItem(cell(''), annotator);
    } catch (error) {
      warn('This browser keeps nothing: save your answers to a file before you close the page.');
    }
  }

  function change(item, key, value) {
    const own = answers[item.id] = answers[item.id] || {};
    own[key] = value;
    own[CHANGED] = Date.now();
    keep();
  }

  function kept(name) {
    try {
      return JSON.parse(localStorage.getItem(cell(name))) || {};
    } catch (error) {
      return {};
    }
  }

  function warn(text) {
    const box = by('trouble');
    box.textContent = text;
    box.hidden = false;
    (by('work').hidden ? by('start') : by('work')).prepend(box);
  }

  // ------------------------------------------------- files
  function exported() {
    const rows = [];
    for (const { item, left } of order) {
      for (const question of data.questions) {
        const given = (answers[item.id] || {})[question.dimension];
        if (!given) continue;
        const row = { item: item.id, dimension: question.dimension, answer: given[0], seconds: given[1] };
        if (pair) row.left = left;
        if (data.flag) row.flags = flagsOf(item);
        rows.push(row);
      }
    }
    return {
      format: data.format, rating_set: data.rating_set, page: data.page,
      annotator: annotator, saved: Date.now(), answers: rows,
    };
  }

  function saveFile() {
    const text = JSON.stringify(exported(), null, 1) + '\n';
    const link = make('a');
    link.href = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
    const name = annotator.replace(/[^\p{L}\p{N}]+/gu, '_');
    link.download = 'ratings-' + data.rating_set.slice(0, 8) + '-' + data.page + '-' + name + '.json';
    document.body.append(link);
    link.click();
    link.remove();
  }

  function loadFile(text) {
    let file;
    try { file = JSON.parse(text); } catch (error) { return warn('This file is not one that this page saved.'); }
    if (!file || file.format !== data.format || file.rating_set !== data.rating_set || !Array.isArray(file.answers)) {
      return warn('This file is of another rating page.');
    }
    begin(String(file.annotator));
    const known = new Set(data.items.map((item) => item.id));
    for (const row of file.answers) {
      if (!known.has(row.item)) continue;
      const own = answers[row.item] = answers[row.item] || {};
      const isNewer = own[CHANGED] > file.saved; // than the file
      if (!isNewer || !own[row.dimension]) own[row.dimension] = [String(row.answer), row.seconds];
      if (Array.isArray(row.flags) && !(isNewer && own[FLAGS])) own[FLAGS] = row.flags.map(String);
      own[CHANGED] = Math.max(own[CHANGED] || 0, file.saved);
    }
    keep();
    goOn();
  }

  // ------------------------------------------------- what is shown
  function show(id) {
    for (const name of ['start', 'work', 'done']) by(name).hidden = name !== id;
  }

  function dialogue(turns, title, cls) {
    const box = make('section', 'dialogue ' + cls);
    box.append(make('h2', '', title));
    for (const turn of turns) {
      const one = make('div', 'turn ' + (turn.own ? 'own' : 'partner') + (turn.given ? ' given' : ''));
      one.append(make('p', 'who', turn.own ? title : pair ? 'Partner' : data.segments ? 'Speaker 2' : 'User'));
      one.append(make('div', 'bubble', turn.text));
      box.append(one);
    }
    return box;
  }

  function choices(question) {
    const speakers = (text) => text.replace(/<(Speaker [12])>/g, '$1');
    if (!pair) return question.answers.map((label, i) => [String(i + 1), String(i + 1), label]);
    const left = order[place].left, right = left === 'a' ? 'b' : 'a';
    const all = [['1', left, speakers(question.answers[0])], ['2', right, speakers(question.answers[1])]];
    if (data.ties) all.push(['0', 'tie', data.tie || 'No difference']);
    if (data.unrelated) all.push(['9', 'unrelated', data.unrelated]);
    return all;
  }

  function drawQuestion() {
    const question = data.questions[asked];
    const given = (answers[order[place].item.id] || {})[question.dimension];
    const row = make('div', 'answers');
    for (const [key, value, label] of choices(question)) {
      const button = make('button', '', label);
      button.type = 'button';
      button.prepend(make('kbd', '', key), ' ');
      button.setAttribute('aria-pressed', String(Boolean(given) && given[0] === value));
      button.addEventListener('click', () => answer(value));
      row.append(button);
    }
    const many = data.questions.length > 1;
    const which = many ? 'Question ' + (asked + 1) + ' of ' + data.questions.length : '';
    by('question').replaceChildren(make('p', 'small', which), make('p', 'text', question.text), row);
    if (data.flag) by('question').append(flagButtons());
  }

  // ------------------------------------------------- flags, and texts behind a click
  const flagsOf = (item) => (answers[item.id] || {})[FLAGS] || [];
  const flagSides = () => {
    if (!pair) return [['f', 'a', 'Flag']];
    const left = order[place].left;
    return [['f', left, 'Flag Speaker 1'], ['j', left === 'a' ? 'b' : 'a', 'Flag Speaker 2']];
  };

  function toggleFlag(side) {
    const item = order[place].item, before = flagsOf(item);
    const after = before.includes(side) ? before.filter((one) => one !== side) : [...before, side];
    change(item, FLAGS, after.sort());
    drawQuestion();
  }

  function flagButtons() {
    const row = make('div', 'answers flags');
    row.append(make('p', 'small', data.flag));
    for (const [key, side, label] of flagSides()) {
      const button = make('button', '', label);
      button.type = 'button';
      button.prepend(make('kbd', '', key), ' ');
      button.setAttribute('aria-pressed', String(flagsOf(order[place].item).includes(side)));
      button.addEventListener('click', () => toggleFlag(side));
      row.append(button);
    }
    return row;
  }

  const isHidden = () => data.offensive && !by('show_all').checked && revealed !== order[place].item.id;

  // how long an item has been shown before: an answer that is mended took that, too
  function shownBefore(item) {
    const times = data.questions.map((q) => ((answers[item.id] || {})[q.dimension] || [])[1] || 0);
    return 1000 * Math.max(0, ...times);
  }

  function reveal() {
    revealed = order[place].item.id;
    shownAt = Date.now() - shownBefore(order[place].item);
    drawItem();
  }

  function drawCover() {
    const button = make('button', '', 'Show the texts, which may be offensive');
    button.id = 'reveal';
    button.type = 'button';
    button.prepend(make('kbd', '', 's'), ' ');
    button.addEventListener('click', reveal);
    by('dialogues').replaceChildren(button);
    by('question').replaceChildren();
  }

  function drawItem() {
    show('work');
    const { item, left } = order[place];
    const sides = item.dialogues;
    const shown = pair
      ? [dialogue(sides[left === 'a' ? 0 : 1], 'Speaker 1', 'first'), dialogue(sides[left === 'a' ? 1 : 0], 'Speaker 2', 'second')]
      : [dialogue(sides[0], data.segments ? 'Speaker 1' : 'Bot', 'first')];
    const complete = order.filter((one) => isComplete(one.item)).length;
    by('progress').textContent = (place + 1) + ' of ' + order.length + ' (' + complete + ' answered)';
    by('bar').max = order.length;
    by('bar').value = complete;
    by('back').disabled = place === 0 && asked === 0;
    if (isHidden()) { drawCover(); return; }
    by('dialogues').replaceChildren(...shown);
    drawQuestion();
  }

  // ------------------------------------------------- answers
  const isComplete = (item) => data.questions.every((q) => (answers[item.id] || {})[q.dimension]);
  const firstOpen = (item) => Math.max(0, data.questions.findIndex((q) => !(answers[item.id] || {})[q.dimension]));

  function goTo(index) {
    place = index;
    asked = firstOpen(order[place].item);
    shownAt = Date.now() - shownBefore(order[place].item);
    drawItem();
    scrollTo(0, 0);
  }

  function goOn() {
    const next = order.findIndex((one) => !isComplete(one.item));
    if (next < 0) show('done'); else goTo(next);
  }

  function answer(value) {
    const item = order[place].item, question = data.questions[asked];
    const seconds = Math.round((Date.now() - shownAt) / 100) / 10;
    change(item, question.dimension, [value, seconds]);
    if (asked + 1 < data.questions.length) {
      asked += 1;
      drawItem();
    } else if (place + 1 < order.length && isComplete(item)) {
      goTo(place + 1);
    } else {
      goOn();
    }
  }

  function back() {
    if (asked > 0) { asked -= 1; drawItem(); return; }
    if (place === 0) return;
    goTo(place - 1);
    asked = data.questions.length - 1;
    drawItem();
  }

  function begin(name) {
    annotator = name.trim();
    order = drawOrder(annotator);
    answers = kept(annotator);
    keep();
  }

  // ------------------------------------------------- keys and buttons
  const SAME = { ArrowLeft: '1', ArrowRight: '2', ArrowDown: '0', a: '1', b: '2', t: '0', u: '9' };
  document.addEventListener('keydown', (event) => {
    if (by('work').hidden || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.key === 'Backspace') { event.preventDefault(); back(); return; }
    if (isHidden()) {
      if (event.key === 's') { event.preventDefault(); reveal(); }
      return;
    }
    const flag = data.flag && flagSides().find((one) => one[0] === event.key);
    if (flag) { event.preventDefault(); toggleFlag(flag[1]); return; }
    const key = pair && SAME[event.key] ? SAME[event.key] : event.key;
    const choice = choices(data.questions[asked]).find((one) => one[0] === key);
    if (choice) { event.preventDefault(); answer(choice[1]); }
  });
  by('begin').addEventListener('submit', (event) => {
    event.preventDefault();
    if (!by('name').value.trim()) return;
    begin(by('name').value);
    goOn();
  });
  by('load').addEventListener('change', () => {
    const file = by('load').files[0];
    if (file) file.text().then(loadFile);
  });
  by('back').addEventListener('click', back);
  by('review').addEventListener('click', () => goTo(order.length - 1));
  by('save').addEventListener('click', saveFile);
  by('finish').addEventListener('click', saveFile);
  try { by('name').value = localStorage.getItem(cell('')) || ''; } catch (error) { /* nothing was kept */ }
  by('name').select();
})();
