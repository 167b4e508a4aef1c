  const data = JSON.parse(document.getElementById('data').textContent);
  const by = (id) => document.getElementById(id);

  // every text goes in as a text node: nothing a system said is ever parsed as HTML
  function make(tag, cls, text) {
    const node = document.createElement(tag);
    if (cls) node.className = cls;
    if (text !== undefined) { node.textContent = text; node.dir = 'auto'; }
    return node;
  }
  const minus = (text) => text.replace('-', '\u2212').replace(/^\u2212(0(\.0+)?)$/, '$1');
  const shown = (v, digits = 2) => minus(v.toFixed(digits));
  const signed = (v, digits) => (Number(v.toFixed(digits)) > 0 ? '+' : '') + shown(v, digits);

  // ------------------------------------------------- what is shown: #anchor?key=value&…
  const state = {};
  const KEYS = ['scorer', 'dimension', 'q', 'target', 'partner', 'which', 'sort', 'dialogue'];
  let anchor = '';

  function readAddress() {
    const [first, ...rest] = location.hash.slice(1).split('?');
    const given = new URLSearchParams(rest.join('?'));
    KEYS.forEach((key) => { state[key] = given.get(key) || ''; });
    state.beside = given.getAll('beside');
    anchor = first;
  }

  function writeAddress() {
    const query = new URLSearchParams();
    KEYS.forEach((key) => { if (state[key]) query.append(key, state[key]); });
    state.beside.forEach((name) => query.append('beside', name));
    const text = query.toString();
    history.replaceState(null, '', '#' + anchor + (text ? '?' + text : ''));
  }

  // ------------------------------------------------- scorer and dimension
  const scorer = () => data.scorers.find((one) => one.id === state.scorer) || data.scorers[0];
  const board = () => Math.max(0, scorer().boards.indexOf(state.dimension));
  // the place of the dimension in lists of scores; a tournament's rating has no scores
  const place = () => Math.max(0, scorer().dimensions.indexOf(scorer().boards[board()]));
  const dimension = () => scorer().dimensions[place()];
  const digits = () => scorer().digits[place()];
  const scoredBy = (d) => d.scored[data.scorers.indexOf(scorer())];
  function valueOf(d) {
    const scored = scoredBy(d);
    return scored && dimension() !== undefined ? scored.means[place()] : null;
  }

  function showView() {
    const own = scorer();
    document.querySelectorAll('.view').forEach((view) => { view.hidden = view.dataset.scorer !== own.id; });
    document.querySelectorAll('.view > header, .view > section').forEach((part) => {
      const panels = [...part.querySelectorAll(':scope > [data-dimension]')];
      const chosen = panels.find((panel) => Number(panel.dataset.dimension) === board()) || panels[0];
      panels.forEach((panel) => { panel.hidden = panel !== chosen; });
    });
    const group = by('choose-dimension');
    group.replaceChildren(...(own.boards.length > 1 ? own.boards : []).map((name, k) => {
      const button = make('button', '', name);
      button.type = 'button';
      button.setAttribute('aria-pressed', k === board());
      button.addEventListener('click', () => {
        change({ dimension: k ? name : '' });
        group.children[k].focus();
      });
      return button;
    }));
    by('chooser').hidden = own.boards.length < 2 && data.scorers.length < 2;
    if (by('choose-scorer')) by('choose-scorer').value = own.id;
  }

  // another view of the page: draw it and put it into the address
  function change(values) {
    Object.assign(state, values);
    showView();
    showDialogues();
    writeAddress();
  }
