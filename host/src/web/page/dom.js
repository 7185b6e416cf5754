// Elements. Names of devices and texts of events are anybody's words: they become text, never markup.

export const $ = (id) => document.getElementById(id);

const SVG = "http://www.w3.org/2000/svg";

function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export const make = (name, attributes = {}, ...children) => furnish(document.createElement(name), attributes, children);
export const draw = (name, attributes = {}, ...children) => furnish(document.createElementNS(SVG, name), attributes, children);

// Has a list offer these pairs of a value and a label, and keeps what is chosen while that is there.
export function offer(select, choices) {
  const is = (option, at) => choices[at] && option.value === choices[at][0] && option.text === choices[at][1];
  if (select.options.length === choices.length && [...select.options].every(is)) return;
  const chosen = select.value;
  select.replaceChildren(...choices.map(([value, label]) => {
    const option = make("option", {}, label);
    option.value = value;
    return option;
  }));
  if (choices.some(([value]) => value === chosen)) select.value = chosen;
}
