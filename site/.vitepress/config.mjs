// The site: the Markdown of the repository, as pages.mjs lays it out in site/pages.
import { readFileSync } from 'node:fs'
import { defineConfig } from 'vitepress'

const layout = JSON.parse(readFileSync(new URL('../pages/layout.json', import.meta.url), 'utf8'))

// PADDOCK_VERSION is the version of this copy of the site, which is then below /VERSION/.
// PADDOCK_VERSIONS are all versions that are published, the newest first, separated by commas.
const version = process.env.PADDOCK_VERSION ?? ''
const versions = (process.env.PADDOCK_VERSIONS ?? '').split(',').filter(Boolean)
const root = process.env.PADDOCK_SITE_ROOT ?? '/'

export default defineConfig({
  title: 'Paddock',
  description: 'CPUs and memory of Kubernetes nodes: decided, explained, and predicted for every kubelet',
  lang: 'en',
  base: version ? `${root}${version}/` : root,
  srcDir: 'pages',
  outDir: '../bin/site' + (version ? `/${version}` : ''),
  cleanUrls: false,
  lastUpdated: false,
  head: [
    ['meta', { name: 'theme-color', content: '#1f6feb' }],
    ['style', {}, 'html.dark .light-only, html:not(.dark) .dark-only { display: none }'], // Each picture is there twice.
  ],
  markdown: { theme: { light: 'github-light', dark: 'github-dark' } },
  themeConfig: {
    outline: [2, 3],
    search: { provider: 'local' },
    sidebar: layout.sidebar,
    nav: [
      ...layout.nav,
      {
        text: version || 'main',
        items: ['main', ...versions].map((v) => ({ text: v, link: v === 'main' ? root : `${root}${v}/`, target: '_self' })),
      },
    ],
    socialLinks: [{ icon: 'github', link: layout.repository }],
    docFooter: { prev: 'Previous', next: 'Next' },
  },
})
