/*
 * Strokes of a mouse, a pen or one finger on a canvas, and files that are chosen or dropped.
 */

/* Call `begin(event)`, `move(event)` and `end()` for a stroke: the first finger, or the left button. */
function onStroke(canvas, { begin, move, end }) {
  let pointer = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (pointer !== null || !event.isPrimary || event.button !== 0) return;
    pointer = event.pointerId;
    canvas.setPointerCapture(pointer);
    begin(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (event.pointerId !== pointer) return;
    const events = event.getCoalescedEvents?.() ?? [];
    for (const each of events.length ? events : [event]) move(each);
  });
  const lift = (event) => {
    if (event.pointerId !== pointer) return;
    pointer = null;
    end();
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
}

/* Call `open(file, others)` for a file that is chosen, or dropped anywhere: the browser must not open it in our place. */
function onFiles(input, open) {
  const take = (files) => files.length && open(files[0], files.length - 1);
  input.onchange = () => {
    const files = [...input.files];
    input.value = ""; // so that the same file can be chosen again
    take(files);
  };
  for (const name of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      document.body.classList.toggle("over", name === "dragover");
      if (name === "drop") take([...event.dataTransfer.files]);
    });
  }
}

/* What is said of files that are not opened. */
const saidOfOthers = (others) => (others ? ` (one file at a time: ${others} more not opened)` : "");

/* Show a line about the input; errors stand out. */
function tell(element, text, error = false) {
  element.textContent = text;
  element.classList.toggle("bad", error);
}
