export function saveFile(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = Object.assign(document.createElement('a'), { href: url, download: name });
  link.click();
  URL.revokeObjectURL(url);
}

/** Lets the browser save what the address names. The store learns no address of ours. */
export function openFile(url: string): void {
  Object.assign(document.createElement('a'), { href: url, rel: 'noreferrer' }).click();
}
