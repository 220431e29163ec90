/**
 * A URL without user info, and without the query parameters that are not to be kept. It works on
 * the text, so that it strips what no parser takes for a URL as well: relative ones, cut ones.
 */
export function stripUrl(
  url: string,
  keptParameters: ReadonlySet<string>,
  keepsFragment: boolean,
): string {
  // Parsers of URLs leave these out wherever they are.
  const text = url.replace(/[\t\r\n]/g, '');
  const [beforeFragment, fragment] = cut(text, '#');
  const [place, query] = cut(beforeFragment, '?');
  const parameters = (query ?? '')
    .split('&')
    .filter((parameter) => keptParameters.has(nameOf(parameter)));
  const keptQuery = parameters.length > 0 ? `?${parameters.join('&')}` : '';
  const keptFragment = keepsFragment && fragment !== undefined ? `#${fragment}` : '';
  return stripUserInfo(place) + keptQuery + keptFragment;
}

function cut(text: string, at: string): readonly [string, string | undefined] {
  const position = text.indexOf(at);
  return position < 0 ? [text, undefined] : [text.slice(0, position), text.slice(position + 1)];
}

function nameOf(parameter: string): string {
  const [name] = cut(parameter, '=');
  try {
    return decodeURIComponent(name.replaceAll('+', ' '));
  } catch {
    return name;
  }
}

/** Browsers take `\` for `/`, and one slash or none for two: each part that may be the host is stripped. */
function stripUserInfo(place: string): string {
  const parts = place.split(/([\\/])/);
  return parts
    .map((part, index) => {
      const before = parts[index - 2] ?? ':';
      const mayBeHost = before.endsWith(':') || (before === '' && index > 2);
      return mayBeHost ? part.slice(part.lastIndexOf('@') + 1) : part;
    })
    .join('');
}
