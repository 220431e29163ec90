import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

/** The operators' page. `npm run dev:console` serves it with the API of a Sluice at port 8000. */
export default defineConfig({
  root: 'src/clients/console',
  base: '/console/',
  plugins: [react()],
  build: {
    outDir: '../../../dist/console',
    emptyOutDir: true,
    target: 'es2023',
    // The page's content policy allows no data: addresses and no inline script.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // The page uses the checker of customers, which imports modules of Node only as a program.
    rolldownOptions: { external: /^node:/ },
  },
  server: { proxy: { '/api': 'http://127.0.0.1:8000' } },
});
