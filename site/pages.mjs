// Lays out the pages of the site in site/pages: the Markdown of the repository as it is, and the
// reference, which is generated from the program, the JSON schemas and the CRDs. A link to a file
// that is not a page becomes a link to the repository.
//
// It runs bin/paddock for the help of the commands; "make site" builds it before.
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseAllDocuments } from 'yaml'

const root = fileURLToPath(new URL('..', import.meta.url))
const out = join(root, 'site/pages')
const repository = 'https://github.com/paddock-project/paddock'

// The pages by kind. Each file of docs/ is in one list, or the layout fails.
const kinds = {
  Start: ['README.md', 'docs/read-a-rejection.md', 'docs/example-node.md', 'docs/choose-a-scope.md'],
  Tasks: [
    'docs/adopt.md', 'docs/observe-a-kubelet.md', 'docs/kubelet-does-not-start.md', 'docs/upgrade-a-kubelet.md', 'docs/size-a-node.md', 'docs/size-a-fleet.md', 'docs/predict.md', 'docs/gpu-server.md',
    'docs/defragment-a-node.md', 'docs/move-running-pods.md', 'docs/kubevirt.md', 'docs/slow-nodes.md', 'docs/roll-out-and-back.md', 'docs/notices.md', 'docs/isolated-cpus.md', 'docs/quiet-cpus.md', 'docs/cache.md',
    'deploy/README.md', 'deploy/crio/README.md', 'deploy/scheduler/README.md',
  ],
  Explanation: [
    'docs/agent.md', 'docs/scheduler.md', 'docs/kueue.md', 'docs/benefit.md', 'docs/how-fast.md', 'docs/answers-that-changed.md',
    'ARCHITECTURE.md', 'CONTRIBUTING.md', 'docs/release.md', 'SECURITY.md', 'CODE_OF_CONDUCT.md',
  ],
  Reference: ['docs/commands.md', 'docs/metrics.md', 'docs/runtimes.md', 'RELEASES.md', 'CHANGELOG.md'],
  Rules: readdirSync(join(root, 'docs/rules')).filter((f) => f.endsWith('.md')).map((f) => `docs/rules/${f}`),
}

// page returns the path of a file in the site.
function page(file) {
  if (file === 'README.md') return 'index.md'
  return file.replace(/^docs\//, '').replace(/(^|\/)README\.md$/, '$1index.md')
}

const pages = new Map(Object.values(kinds).flat().map((file) => [file, page(file)]))

// title returns the first heading of a text.
function title(text) {
  return text.match(/^# (.+)$/m)[1].replaceAll('`', '')
}

// link returns the target of a link of a file as it is in the site.
function link(file, target) {
  if (/^[a-z]+:|^#/.test(target)) return target
  const [path, anchor] = target.split('#')
  const to = normalize(join(dirname(file), path)).replace(/\/$/, '')
  const suffix = anchor ? `#${anchor}` : ''
  const name = pages.get(to) ?? pages.get(join(to, 'README.md'))
  if (name) return relative(dirname(join('/', page(file))), join('/', name)) + suffix
  if (/\.(svg|png)$/.test(to)) return `/${to}`
  if (to === 'docs/schemas') return relative(dirname(join('/', page(file))), '/schemas/index.md')
  if (!existsSync(join(root, to))) throw new Error(`${file}: link to ${target}: there is no ${to}`)
  return `${repository}/${statSync(join(root, to)).isDirectory() ? 'tree' : 'blob'}/main/${to}${suffix}`
}

// converted returns the text of a page. Only what is outside of code is changed.
function converted(file, text) {
  let code = false
  return text.split('\n').map((line) => {
    if (line.startsWith('```')) code = !code
    if (code) return line
    return line
      .split(/(`[^`]*`)/)
      .map((part) => part.startsWith('`') ? part : part.replaceAll('{{', '&#123;&#123;').replace(/<([A-Z][A-Z_]*)>/g, '&lt;$1&gt;'))
      .join('')
      .replace(/(\]\()([^)\s]+)(\))/g, (_, open, target, close) => open + link(file, target) + close)
  }).join('\n')
}

function write(name, text) {
  mkdirSync(dirname(join(out, name)), { recursive: true })
  writeFileSync(join(out, name), text)
}

// fields returns the rows of the members of a JSON schema, with those of its members below them.
function fields(schema, depth = 0) {
  let rows = []
  for (const [name, member] of Object.entries(schema.properties ?? {})) {
    const of = member.type === 'array' ? member.items ?? {} : member
    const many = member.type === 'array' ? '[]' : ''
    const required = (schema.required ?? []).includes(name) ? '' : ', optional'
    const enums = (of.enum ?? []).map((v) => `\`${v}\``).join(', ')
    const text = (member.description ?? of.description ?? '').replace(/\s+/g, ' ').replaceAll('|', '\\|').replaceAll('<', '&lt;').replaceAll('{{', '&#123;&#123;')
    const type = of.const ? `\`${of.const}\`` : of.type ?? 'any'
    rows.push(`| ${'&emsp;'.repeat(depth)}\`${name}${many}\` | ${many ? 'list of ' : ''}${type}${required} | ${text}${enums ? ` One of ${enums}.` : ''} |`)
    rows = rows.concat(fields(of, depth + 1))
  }
  return rows
}

const table = (schema) => ['| member | type | meaning |', '| --- | --- | --- |', ...fields(schema)].join('\n') + '\n'

// commands returns the names of all commands of a program, with those of their commands.
function commands(program, path = []) {
  const help = execFileSync(program, [...path, '--help'], { encoding: 'utf8', env: { ...process.env, COLUMNS: '100', NO_COLOR: '1' } })
  let all = [{ path, help }]
  const list = help.split('Available Commands:\n')[1]?.split('\n\n')[0] ?? ''
  for (const [, name] of list.matchAll(/^ {2}([a-z][a-z-]*) /gm)) {
    if (['help', 'completion'].includes(name)) continue
    all = all.concat(commands(program, [...path, name]))
  }
  return all
}

rmSync(out, { recursive: true, force: true })
for (const file of readdirSync(join(root, 'docs')).filter((f) => f.endsWith('.md'))) {
  if (!pages.has(`docs/${file}`)) throw new Error(`docs/${file} is in no list of site/pages.mjs`)
}
for (const [file, name] of pages) write(name, converted(file, readFileSync(join(root, file), 'utf8')))
cpSync(join(root, 'docs/images'), join(out, 'public/docs/images'), { recursive: true })
cpSync(join(root, 'docs/schemas'), join(out, 'public/schemas'), { recursive: true })

// The live page and the fleet page as their tests see them: "make site" runs these tests before.
const pictures = [
  ['node', 'A node', 'A cell is a logical CPU, coloured by its pod. Choosing a pod, a CPU or a device shows what it has and why.'],
  ['rejection', 'A rejection', 'What was missing, by NUMA node, and each change that would admit the pod. Each change was planned, and can be shown on the map.'],
  ['fleet', 'A fleet', 'A tile is a node. Choosing one shows its map.'],
]
let tour = '# What the pages show\n\nAn agent serves a page of its node: `make run` starts one. `paddock fleet serve` serves a page of a fleet, and `paddock fleet -o html` writes it to a file.\n'
for (const [name, title, text] of pictures) {
  tour += `\n## ${title}\n\n${text}\n\n`
  for (const scheme of ['light', 'dark']) {
    const file = `${name}-768-${scheme}.png`
    mkdirSync(join(out, 'public/pictures'), { recursive: true })
    cpSync(join(root, 'bin/pictures', file), join(out, 'public/pictures', file))
    tour += `![${title}, ${scheme}](/pictures/${file}){.${scheme}-only}\n`
  }
}
write('tour.md', tour)

// The reference of the commands: what --help prints.
const items = []
for (const { path, help } of commands(join(root, 'bin/paddock'))) {
  const name = ['paddock', ...path].join(' ')
  write(`reference/${path.join('-') || 'paddock'}.md`, `# ${name}\n\n\`\`\`text\n${help.trimEnd()}\n\`\`\`\n`)
  items.push({ text: name, link: `/reference/${path.join('-') || 'paddock'}` })
}

// The reference of the answers and of the objects.
const answers = readdirSync(join(root, 'docs/schemas')).filter((f) => f.endsWith('.json'))
let index = '# Answers as JSON\n\nEach file is a JSON schema of what a command prints with `-o json`.\n\n'
for (const file of answers) {
  const schema = JSON.parse(readFileSync(join(root, 'docs/schemas', file), 'utf8'))
  const name = file.replace('.json', '')
  write(`schemas/${name}.md`, `# ${schema.title}\n\nThe schema: <a href="./${file}" target="_self">${file}</a>\n\n${table(schema)}`)
  index += `- [${schema.title}](${name}.md)\n`
}
write('schemas/index.md', index)

// The reference of the objects in a cluster, from their CRDs.
const objects = []
for (const file of readdirSync(join(root, 'deploy/base/crds')).filter((f) => f.endsWith('.yaml'))) {
  for (const document of parseAllDocuments(readFileSync(join(root, 'deploy/base/crds', file), 'utf8'))) {
    const crd = document.toJS()
    if (crd?.kind !== 'CustomResourceDefinition') continue
    const { kind, plural } = crd.spec.names
    for (const version of crd.spec.versions) {
      const { apiVersion, kind: _, metadata, ...properties } = version.schema.openAPIV3Schema.properties
      const schema = { ...version.schema.openAPIV3Schema, properties }
      const name = `objects/${plural}-${version.name}`
      write(`${name}.md`, `# ${kind}\n\n\`apiVersion: ${crd.spec.group}/${version.name}\`, ${crd.spec.scope === 'Cluster' ? 'of the whole cluster' : 'in a namespace'}.\n\n` +
        `${(version.schema.openAPIV3Schema.description ?? '').replace(/\s+/g, ' ')}\n\n${table(schema)}`)
      objects.push({ text: `${kind} ${version.name}`, link: `/${name}` })
    }
  }
}
if (objects.length === 0) throw new Error('deploy/base/crds has no CRD')

write('layout.json', JSON.stringify({
  repository,
  nav: [
    { text: 'Read a rejection', link: '/read-a-rejection' },
    { text: 'Commands', link: '/commands' },
    { text: 'Rules', link: '/rules/' },
  ],
  sidebar: [
    ...Object.entries(kinds).map(([kind, files]) => ({
      text: kind,
      collapsed: kind === 'Rules',
      items: files.map((file) => ({
        text: file === 'README.md' ? 'Paddock' : title(readFileSync(join(root, file), 'utf8')),
        link: '/' + page(file).replace(/index\.md$/, '').replace(/\.md$/, ''),
      })).concat(kind === 'Start' ? [{ text: 'What the pages show', link: '/tour' }] : []),
    })),
    { text: 'Objects in a cluster', collapsed: true, items: objects },
    { text: 'Commands', collapsed: true, items },
    { text: 'Answers', collapsed: true, items: answers.map((f) => ({ text: f.replace('.json', ''), link: `/schemas/${f.replace('.json', '')}` })) },
  ],
}))
console.log(`${pages.size} pages of the repository, ${items.length} of commands, ${answers.length} of answers, ${objects.length} of objects`)
