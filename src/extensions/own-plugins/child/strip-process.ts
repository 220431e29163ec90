/** Globals of the host realm that are part of the language; the sandbox's program needs Buffer and URL. */
const used = new Set([
  ...['Object', 'Function', 'Array', 'Number', 'Boolean', 'String', 'Symbol', 'BigInt', 'RegExp'],
  ...['Promise', 'Map', 'Set', 'WeakMap', 'WeakSet', 'Proxy', 'Reflect', 'JSON', 'Math', 'Date'],
  ...['Error', 'TypeError', 'RangeError', 'SyntaxError', 'undefined', 'NaN', 'Infinity'],
  ...['Uint8Array', 'ArrayBuffer', 'Buffer', 'URL'],
]);

/**
 * Takes away from the host realm what leads to files, the network, other processes and native code. So
 * a plugin that got hold of an object of this realm would find nothing there: the way out of the
 * realm is only the first line of defence.
 */
export function stripProcess(): void {
  const names = [
    ...['binding', '_linkedBinding', 'dlopen', 'getBuiltinModule', 'mainModule', 'kill', '_kill'],
    ...['_debugProcess', '_debugEnd', '_startProfilerIdleNotifier', 'chdir', 'umask', 'abort'],
    ...[
      'stdin',
      'stdout',
      'stderr',
      'openStdin',
      'permission',
      'report',
      'env',
      'argv',
      'execArgv',
    ],
    ...['reallyExit', 'exit', 'setuid', 'setgid', 'seteuid', 'setegid', 'setgroups', 'initgroups'],
    ...['loadEnvFile', '_getActiveHandles', '_getActiveRequests', '_rawDebug', 'moduleLoadList'],
  ];
  for (const name of names) Reflect.deleteProperty(process, name);
  for (const name of Object.getOwnPropertyNames(globalThis)) {
    if (!used.has(name)) Reflect.deleteProperty(globalThis, name);
  }
}
