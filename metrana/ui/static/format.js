// Numbers and times as text. Figures are those of `metrana show`, character by character.

const DAY = 86400;
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
export const FARTHEST_SECS = 8e12; // what a Date can hold

// The unit of an axis and what turns a metric's values into it: of bytes the one that fits the largest value.
export function scaleOf(unit, largest) {
  if (unit !== "bytes") return { unit, factor: 1 };
  const power = binaryPower(largest);
  return { unit: BYTES[power], factor: 1024 ** -power };
}

function binaryPower(value) {
  let power = 0;
  for (let size = Math.abs(value); size >= 1024 && power < BYTES.length - 1; size /= 1024) power += 1;
  return power;
}

// A value as it stands before its unit; bytes, whose unit depends on the value, with it.
export function formatFigure(value, unit) {
  if (unit !== "bytes") return formatGeneral(value, unit === "" ? 6 : 4);
  if (!Number.isFinite(value)) return formatGeneral(value, 4);
  const power = binaryPower(value);
  return power === 0 ? `${Math.round(value)} B` : `${formatGeneral(value / 1024 ** power, 4)} ${BYTES[power]}`;
}

// What C and Python call %g: so many significant digits, without zeros at the end.
function formatGeneral(value, digits) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const [mantissa, power] = value.toExponential(digits - 1).split("e");
  const exponent = Number(power);
  const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (exponent >= -4 && exponent < digits) return trimmed(value.toFixed(digits - 1 - exponent));
  return `${trimmed(mantissa)}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

export function formatClock(t, digits) {
  const date = new Date(t * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (digits === null) return minutes;
  const secs = date.getSeconds() + (t - Math.floor(t));
  return `${minutes}:${two(digits ? secs.toFixed(digits).padStart(3 + digits, "0") : Math.floor(secs))}`;
}

export function formatTime(t) {
  if (t === null || !(Math.abs(t) < FARTHEST_SECS)) return t === null ? "unknown" : formatFigure(t, "");
  const date = new Date(t * 1000);
  const two = (number) => String(number).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${formatClock(t, 0)}`;
}

export function formatDuration(secs) {
  if (!Number.isFinite(secs)) return "unknown";
  const sign = secs < 0 ? "−" : "";
  const whole = Math.abs(secs);
  if (whole < 10 && whole !== Math.round(whole)) return `${sign}${+whole.toPrecision(3)}s`;
  const rounded = Math.round(whole);
  for (const [size, unit, inner, innerUnit] of [[DAY, "d", 3600, "h"], [3600, "h", 60, "m"], [60, "m", 1, "s"]]) {
    if (rounded >= size) {
      const rest = Math.floor((rounded % size) / inner);
      return `${sign}${Math.floor(rounded / size)}${unit}${rest ? ` ${rest}${innerUnit}` : ""}`;
    }
  }
  return `${sign}${rounded}s`;
}
