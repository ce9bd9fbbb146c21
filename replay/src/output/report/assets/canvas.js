// Drawing: sharp lines, the page's colours, hatching.

let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  colours = {};
  for (const name of ["page", "card", "line", "soft", "text1", "text2", "text3", "accent", "chosen", "denied", "minor",
    "minor-edge", "on-minor", "major", "on-major", "invalid", "on-invalid", "stripe", "hatch", "lost", "user1", "user2", "user3", "user4",
    "user5", "user6"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
  colours.sans = style.getPropertyValue("--sans").trim();
  colours.mono = style.getPropertyValue("--mono").trim();
  hatches.clear();
}

// A canvas as wide as it is shown, `height` px high; its context counts in px of the page.
function prepare(canvas, height) {
  const width = canvas.clientWidth, scale = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const c = canvas.getContext("2d");
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.clearRect(0, 0, width, height);
  return { c, width };
}

const hatches = new Map();

// A pattern of slanting lines.
function hatch(c, colour, apart = 8) {
  const key = colour + apart;
  if (!hatches.has(key)) {
    const tile = document.createElement("canvas");
    const scale = window.devicePixelRatio || 1;
    tile.width = tile.height = Math.round(apart * scale);
    const t = tile.getContext("2d");
    t.strokeStyle = colour;
    t.lineWidth = 1.2 * scale;
    t.beginPath();
    for (const shift of [-1, 0, 1]) {
      t.moveTo(shift * tile.width, tile.width);
      t.lineTo((shift + 1) * tile.width, 0);
    }
    t.stroke();
    const pattern = c.createPattern(tile, "repeat");
    pattern.setTransform(new DOMMatrix().scale(1 / scale));
    hatches.set(key, pattern);
  }
  return hatches.get(key);
}

function fillHatched(c, x, y, w, h, apart) {
  c.fillStyle = colours.card;
  c.fillRect(x, y, w, h);
  c.fillStyle = hatch(c, colours.hatch, apart);
  c.fillRect(x, y, w, h);
}

// Text that is cut to `most` px. Returns its width.
function drawText(c, text, x, y, most, colour, font) {
  c.font = font;
  c.fillStyle = colour;
  c.textBaseline = "middle";
  let shown = text;
  let width = c.measureText(shown).width;
  if (width > most) {
    let [low, high] = [0, shown.length];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (c.measureText(text.slice(0, middle) + "…").width <= most) low = middle;
      else high = middle - 1;
    }
    shown = text.slice(0, low) + "…";
    width = c.measureText(shown).width;
    if (width > most) return 0;
  }
  c.fillText(shown, x, y);
  return width;
}

function withAlpha(colour, alpha) {
  return `color-mix(in srgb, ${colour} ${Math.round(alpha * 100)}%, transparent)`;
}

// The shape of a severity: triangle, square, diamond.
function severityShape(c, severity, x, y, size) {
  c.fillStyle = colours[["text3", "minor", "major", "invalid"][severity]];
  c.beginPath();
  if (severity === 1) {
    c.moveTo(x, y + size);
    c.lineTo(x + size / 2, y);
    c.lineTo(x + size, y + size);
  } else if (severity === 2) {
    c.rect(x, y, size, size);
  } else {
    c.moveTo(x + size / 2, y - 1);
    c.lineTo(x + size + 1, y + size / 2);
    c.lineTo(x + size / 2, y + size + 1);
    c.lineTo(x - 1, y + size / 2);
  }
  c.closePath();
  c.fill();
  if (severity === 1) {
    c.strokeStyle = colours["minor-edge"];
    c.lineWidth = 1;
    c.stroke();
  }
}
