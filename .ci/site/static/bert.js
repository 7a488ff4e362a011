// BERT in the browser, for a text that a reader types: its tokens, their vectors, and what each head does with them. Its
// numbers are in files that build.py wrote. Each comes as a script when it is needed: so also from disk.
const bertFiles = {};
const bert = (() => {
  const FOLDER = document.currentScript.src.replace(/[^/]*$/, "bert/");
  const LAYERS = 6, HEADS = 12, SIZE = 384, HEAD_SIZE = SIZE / HEADS, PER_FILE = 128; // rows of the table of vectors
  const MOST = 100; // tokens that are read in a few seconds
  const asked = {};
  const toNumbers = ([largest, coded]) => {
    const signs = atob(coded), bytes = new Uint8Array(signs.length);
    for (let i = 0; i < signs.length; i++) bytes[i] = signs.charCodeAt(i); // .from takes ten times as long
    return new Float32Array(new Int16Array(bytes.buffer)).map((step) => (step * largest) / 32767);
  };
  const file = (name) => (asked[name] ??= new Promise((done, fail) => {
    const script = Object.assign(document.createElement("script"), { src: `${FOLDER}${name}.js` });
    script.onload = script.onerror = () => {
      const parts = bertFiles[name]; // none, if the file is missing or damaged
      script.remove();
      delete bertFiles[name];
      if (parts) return done(name === "vocabulary" ? new Map(parts.map((token, id) => [token, id])) : parts.map(toNumbers));
      delete asked[name]; // to be asked for anew
      return fail(Error(`${script.src} did not arrive. Try again.`));
    };
    document.head.append(script);
  }));

  // --- tokens

  const SPECIAL = /(\[(?:PAD|UNK|CLS|SEP|MASK)\])/, MARK = /^[\p{P}$+<=>^`|~]$/u;
  const CHINESE = /^[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2ceaf}\u{2f800}-\u{2fa1f}]$/u;
  // A text in words, as BERT's tokenizer cleans and splits it: small letters, no accents, each mark alone. A word is a list
  // of letters, each with the part of the text that it comes from.
  function wordsOf(text) {
    const words = [[]];
    for (const from of text) {
      const clean = from.replace(/[\0\ufffd]|(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}]/gu, "").normalize("NFD").replace(/\p{Mn}/gu, "").toLowerCase();
      [...clean].forEach((letter, i) => {
        const alone = MARK.test(letter) || CHINESE.test(from);
        if (alone || /\s/.test(letter)) words.push([]);
        if (!/\s/.test(letter)) words.at(-1).push({ letter, from: i ? "" : from });
        if (alone) words.push([]);
      });
      if (!clean && words.at(-1).length) words.at(-1).at(-1).from += from; // an accent that stands by itself
    }
    return words.filter((word) => word.length);
  }
  function piecesOf(word, ids) { // WordPiece: the longest beginning that is a token, then the same with the rest
    const join = (part, start, end) => word.slice(start, end).map((one) => one[part]).join(""), pieces = [];
    for (let start = 0, end; start < word.length; start = end) {
      const token = () => (start ? "##" : "") + join("letter", start, end), tried = [];
      for (end = word.length; end > start && !ids.has(token()); end--) tried.push(token());
      if (end === start || word.length > 100) return [{ token: "[UNK]", from: join("from") }];
      pieces.push({ token: token(), from: join("from", start, end), tried });
    }
    return pieces;
  }
  // Each word of a text as the list of its pieces: {token, id, from: its part of the text}. tried: what is longer and no
  // token; special: not a part of a word.
  async function tokenize(text) {
    const ids = await file("vocabulary"), special = (token) => [{ token, from: token, special: true }];
    const words = text.split(SPECIAL).flatMap((part, i) => (i % 2 ? [special(part)] : wordsOf(part).map((word) => piecesOf(word, ids))));
    return [special("[CLS]"), ...words, special("[SEP]")].map((pieces) => pieces.map((piece) => ({ ...piece, id: ids.get(piece.token) })));
  }

  // --- numbers: all are lists of rows, one behind the other, a row for each token

  // The rows of some ids in the table of vectors.
  async function rowsOf(ids) {
    const parts = await Promise.all(ids.map((id) => file(`rows-${Math.floor(id / PER_FILE)}`)));
    return parts.map(([rows], i) => rows.subarray((ids[i] % PER_FILE) * SIZE, ((ids[i] % PER_FILE) + 1) * SIZE));
  }
  function linear(x, weight, bias) {
    const inputs = weight.length / bias.length, y = new Float32Array((x.length / inputs) * bias.length);
    for (let start = 0, at = 0; start < x.length; start += inputs) {
      for (let row = 0, w = 0; row < bias.length; row++) {
        let total = bias[row];
        for (let i = 0; i < inputs; i++) total += x[start + i] * weight[w++];
        y[at++] = total;
      }
    }
    return y;
  }
  function addAndNorm(x, more, gain, bias) {
    const y = x.map((number, i) => number + more[i]);
    for (let start = 0; start < y.length; start += SIZE) {
      const row = y.subarray(start, start + SIZE), mean = row.reduce((a, b) => a + b) / SIZE;
      const deviation = Math.sqrt(row.reduce((all, number) => all + (number - mean) ** 2, 0) / SIZE);
      row.forEach((number, i) => (row[i] = ((number - mean) / deviation) * gain[i] + bias[i]));
    }
    return y;
  }
  function gelu(number) { // erf by Abramowitz and Stegun, formula 7.1.26: 1.5e-7 from it at most
    const z = Math.abs(number) / Math.SQRT2, t = 1 / (1 + 0.3275911 * z);
    const terms = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592].reduce((all, one) => (all + one) * t, 0);
    const erf = 1 - terms * Math.exp(-z * z);
    return (number * (1 + Math.sign(number) * erf)) / 2;
  }
  // One layer's attention: writes the weights (head, query, key), and returns each token's output.
  function attend([query, key, value], weights) {
    const n = query.length / SIZE, output = new Float32Array(query.length);
    for (let head = 0; head < HEADS; head++) {
      for (let q = 0; q < n; q++) {
        const row = weights.subarray((head * n + q) * n, (head * n + q + 1) * n), from = head * HEAD_SIZE;
        for (let k = 0; k < n; k++) {
          for (let i = from; i < from + HEAD_SIZE; i++) row[k] += query[q * SIZE + i] * key[k * SIZE + i];
        }
        const most = Math.max(...row), powers = row.map((product) => Math.exp((product - most) / Math.sqrt(HEAD_SIZE)));
        const total = powers.reduce((a, b) => a + b);
        powers.forEach((power, k) => {
          row[k] = power / total;
          for (let i = from; i < from + HEAD_SIZE; i++) output[q * SIZE + i] += row[k] * value[k * SIZE + i];
        });
      }
    }
    return output;
  }
  // What BERT does with a text: its tokens; query, key, value (layer, kind, token, head, number); weights (layer, head,
  // query, key). tell(share): how much of it is done.
  async function read(text, tell) {
    const ids = (await tokenize(text)).flat(), n = ids.length;
    if (n < 3) throw Error("Type a sentence first.");
    if (n > MOST) throw Error(`That is ${n} tokens. Take a text of ${MOST} at most.`);
    const [[positions, types, ...norm], rows] = await Promise.all([file("embeddings"), rowsOf(ids.map(({ id }) => id))]);
    const vectors = new Float32Array(LAYERS * 3 * n * SIZE), weights = new Float32Array(LAYERS * HEADS * n * n);
    const summed = Float32Array.from({ length: n * SIZE }, (_, i) => positions[i] + types[i % SIZE]);
    let x = addAndNorm(summed, Float32Array.from(rows.flatMap((row) => [...row])), ...norm);
    for (let layer = 0; layer < LAYERS; layer++) {
      tell(layer / LAYERS);
      await new Promise((go) => setTimeout(go)); // the page draws
      const numbers = await file(`layer-${layer}`), part = (i) => numbers.slice(2 * i, 2 * i + 2); // weight, bias
      const three = [0, 1, 2].map((i) => linear(x, ...part(i)));
      three.forEach((one, kind) => vectors.set(one, (layer * 3 + kind) * n * SIZE));
      const output = attend(three, weights.subarray(layer * HEADS * n * n, (layer + 1) * HEADS * n * n));
      x = addAndNorm(x, linear(output, ...part(3)), ...part(4));
      x = addAndNorm(x, linear(linear(x, ...part(5)).map(gelu), ...part(6)), ...part(7));
    }
    return { tokens: ids.map(({ token }) => token), vectors, weights };
  }
  return { tokenize, rowsOf, read };
})();
