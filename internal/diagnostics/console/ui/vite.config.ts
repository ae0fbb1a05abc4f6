import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vite'

export default defineConfig({
  base: '/ui/',
  plugins: [svelte()],
  build: {
    outDir: process.env.CONSOLE_OUT ?? '../dist',
    emptyOutDir: true,
    // The content security policy forbids inline scripts and data: scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2023',
  },
})
