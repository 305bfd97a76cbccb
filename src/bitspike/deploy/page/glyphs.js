/*
 * Samples that the page draws itself, in a box of 28 x 28. None comes from a data set.
 */
const DIGITS = [
  "M14 5C9 5 8 10 8 14C8 19 9.5 23 14 23C18.5 23 20 19 20 14C20 10 19 5 14 5Z",
  "M14.8 5L13.4 23",
  "M9 9C9.5 4 18.5 4 18.5 9.5C18.5 13.5 10.5 18 8.5 22.5L20 22.5",
  "M9 7C11 4 18.5 4.5 18.5 9C18.5 12.5 15 13.3 12.5 13.5C16 13.5 19.5 15 19.5 18.5C19.5 23.5 11.5 24 8.5 21",
  "M11.5 5L8.5 14.5L19.5 14M17.5 6L16.5 23",
  "M19 5.5L11 5.5L10 12.5C13 11.3 19 11.8 19 17C19 23 11.5 24 8.5 21",
  "M17 5C12 7 9 12.5 9 17.5C9 24.5 18.8 24.3 18.8 18C18.8 13 11.5 12.5 9.3 17",
  "M8.5 6L19.5 6L12.5 23",
  "M18.5 8.5C18 4 9.5 4 9.5 9C9.5 13.5 19 14 19 18.5C19 24 9 24 9 18.5C9 14 18.5 13 18.5 8.5Z",
  "M18.8 10.5C18.5 4 9 4 9 10C9 15 17.5 15.5 18.8 10.5C18.8 16 17.5 20 16.5 23",
];

/* Shapes are [path, brightness], filled one over the other; a path with a third number is a line of that width. */
const CLOTHES = {
  "t-shirt": [["M10 2L4 4.5L.5 11L5.5 13.5L7.5 11L7.5 27L20.5 27L20.5 11L22.5 13.5L27.5 11L24 4.5L18 2C16.5 4.5 11.5 4.5 10 2Z", 0.8]],
  trouser: [["M8.5 .5L19.5 .5L20.5 27.5L15.6 27.5L14 9L12.4 27.5L7.5 27.5Z", 0.75]],
  pullover: [["M10.5 2.5L6 4L1.5 23.5L5.5 25L8 14L8 26L20 26L20 14L22.5 25L26.5 23.5L22 4L17.5 2.5C16 4 12 4 10.5 2.5Z", 0.7]],
  dress: [["M11 .5L10.5 7L11.5 12L8 27.5L20 27.5L16.5 12L17.5 7L17 .5L15.5 4L12.5 4Z", 0.7]],
  coat: [
    ["M10.5 1L6 3.5L3 24.5L7 25.5L8 13L7.5 27.5L20.5 27.5L20 13L21 25.5L25 24.5L22 3.5L17.5 1L14 5Z", 0.65],
    ["M14 5L14 27.5", 0.15, 0.9],
  ],
  sandal: [["M.5 19.5L10 17.5L19 11L25.5 7.5L27 8.5L27.5 20L25.5 20L25 13L15 20.5L1 21.5Z", 0.7], ["M7 19L10 14.5L14 17", 0.6, 1.4]],
  sneaker: [["M.5 18.5L1 14.5L6 13.5L13 9.5L16 11.5L24.5 11L27.5 13.5L27.5 18.5L.5 19.5Z", 0.75], ["M.5 19.2L27.5 18.6", 1, 1.3]],
  bag: [["M9 12C9 3 19 3 19 12", 0.6, 1.6], ["M2.5 11.5L25.5 11.5L26.5 25L1.5 25Z", 0.8]],
  boot: [["M13.5 3L24.5 2.5L25.5 23.5L19.5 24L18.5 22L9 24.5L1.5 24.5L1.5 20.5L8 17.5L13 12.5Z", 0.75]],
};

/* Shapes that claim nothing, for networks on anything else. */
const SHAPES = {
  ring: [["M14 5A9 9 0 1 0 14 23A9 9 0 1 0 14 5Z", 1, 2.5]],
  square: [["M6 6L22 6L22 22L6 22Z", 1]],
  triangle: [["M14 5L24 22L4 22Z", 1]],
  cross: [["M6 6L22 22M22 6L6 22", 1, 2.5]],
  stripes: [["M7 4L7 24M14 4L14 24M21 4L21 24", 1, 2.5]],
};

/* Whether a network is on clothes, as FashionMNIST's are. */
function isOfClothes({ classes, metadata }) {
  return /fashion|t-shirt|ankle boot/i.test([...classes, metadata.data, metadata.experiment].join(" "));
}

/* Whether a network is on digits: ten classes, named 0 to 9. */
function isOfDigits(network) {
  const { classes, inputShape } = network;
  return classes.length === 10 && classes.every((name, k) => name === String(k)) && inputShape.at(-3) !== 3 && !isOfClothes(network);
}

/* The samples that fit a network: [name, a function that draws it on a context whose unit is a pixel of 28]. */
function samplesFor(network) {
  if (isOfDigits(network)) return DIGITS.map((path, digit) => [String(digit), (context) => drawShapes(context, [[path, 1, 2.5]])]);
  return Object.entries(isOfClothes(network) ? CLOTHES : SHAPES).map(([name, shapes]) => [name, (context) => drawShapes(context, shapes)]);
}

function drawShapes(context, shapes) {
  context.lineCap = context.lineJoin = "round";
  for (const [path, brightness, width] of shapes) {
    const level = Math.round(255 * brightness);
    context.fillStyle = context.strokeStyle = `rgb(${level} ${level} ${level})`;
    context.lineWidth = width ?? 0;
    if (width) context.stroke(new Path2D(path));
    else context.fill(new Path2D(path));
  }
}
