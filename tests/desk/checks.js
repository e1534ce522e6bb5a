// What is wrong with the page for whoever cannot see it well, or has a narrow window: a list of
// sentences. For WebDriver's execute/sync.
const wrong = [];
const named = element => `${element.localName} ${element.name || element.textContent.slice(0, 40)}`;

for (const one of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
  if (!one.labels.length && !one.ariaLabel) wrong.push(`no label: ${named(one)}`);
}
for (const one of document.querySelectorAll("button, a")) {
  if (!one.textContent.trim() && !one.ariaLabel) wrong.push(`no name: ${named(one)}`);
}

const levels = [...document.querySelectorAll("h1, h2, h3, h4")].map(one => Number(one.localName[1]));
if (levels.filter(level => level === 1).length !== 1 || levels[0] !== 1) wrong.push("not one h1, first");
levels.forEach((level, at) => {
  if (at && level > levels[at - 1] + 1) wrong.push(`h${level} after h${levels[at - 1]}`);
});

const page = document.documentElement;
if (page.scrollWidth > page.clientWidth) wrong.push(`wider than the window: ${page.scrollWidth}`);

const numbers = color => color.match(/[\d.]+/g).map(Number);
const background = element => {
  for (let one = element; one; one = one.parentElement) {
    const color = numbers(getComputedStyle(one).backgroundColor);
    if (color[3] !== 0) return color;
  }
  return [255, 255, 255];
};
const luminance = color => {
  const [r, g, b] = color.map(c => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const holdsText = element => [...element.childNodes].some(one => one.nodeType === 3 && one.data.trim());
for (const one of document.querySelectorAll("body *:not(option)")) {
  if (!one.checkVisibility() || !(holdsText(one) || one.matches("input, select"))) continue;
  const [dark, light] = [numbers(getComputedStyle(one).color), background(one)]
    .map(luminance).sort((a, b) => a - b);
  const contrast = (light + 0.05) / (dark + 0.05);
  if (contrast < 4.5) wrong.push(`contrast ${contrast.toFixed(1)}: ${named(one)}`);
}
return wrong;
