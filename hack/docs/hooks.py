"""Hooks of MkDocs for the documentation site (mkdocs.yml).

- Documents beside docs (EXTRA_DOCUMENTS) become pages. README.md is the start page.
- An entry DIR/* of the navigation becomes an entry for each document of the folder that has none.
- A link out of docs becomes a link to the page of the file, or to the file in the repository.
- In code in tables, "\\|" becomes "|", as on the code host.
- Pages with a diagram load Mermaid from the site. MERMAID is the path of its script.
"""

import os
import posixpath
import re
from pathlib import Path
from urllib.parse import urlsplit

from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from mkdocs.structure.files import File, InclusionLevel
from mkdocs.utils import get_relative_url

# The documents outside of docs that have a page, by their path in the repository.
EXTRA_DOCUMENTS = {"README.md": "README.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
MERMAID_URI = "assets/mermaid.min.js"
BRANCH = "main"


class RepositoryLinks(Extension):
    """Rewrites links to files of the repository before MkDocs resolves links between pages."""

    def __init__(self, root, repo_url):
        super().__init__()
        self.root = Path(root)
        self.repo_url = repo_url
        self.page = None  # the page that is rendered

    def extendMarkdown(self, md):
        md.treeprocessors.register(LinkProcessor(md, self), "repository-links", 1)  # MkDocs' own has priority 0

    def rewrite(self, url):
        """Returns the URL for the site. A URL that is not of a file of the repository is returned as it is."""
        parts = urlsplit(url)
        if parts.scheme or parts.netloc or not parts.path or parts.path.startswith("/"):
            return url
        source = self.page.file.src_uri
        folder = posixpath.dirname(source) if source in EXTRA_DOCUMENTS else posixpath.join("docs", posixpath.dirname(source))
        target = posixpath.normpath(posixpath.join(folder, parts.path))
        fragment = "#" + parts.fragment if parts.fragment else ""
        uri = page_uri(target)
        if uri and (target in EXTRA_DOCUMENTS or (self.root / target).is_file()):
            return posixpath.relpath(uri, posixpath.dirname(source) or ".") + fragment
        if target.startswith("..") or not (self.root / target).exists():
            return url
        kind = "tree" if (self.root / target).is_dir() else "blob"
        return f"{self.repo_url.rstrip('/')}/{kind}/{BRANCH}/{target}{fragment}"


class LinkProcessor(Treeprocessor):
    def __init__(self, md, links):
        super().__init__(md)
        self.links = links

    def run(self, root):
        for element in root.iter():
            attribute = {"a": "href", "img": "src"}.get(element.tag)
            if attribute and element.get(attribute):
                element.set(attribute, self.links.rewrite(element.get(attribute)))


def page_uri(path):
    """Returns the source URI of the file of the repository in the site, None if it is not part of the site."""
    if path in EXTRA_DOCUMENTS:
        return EXTRA_DOCUMENTS[path]
    if path.startswith("docs/") and not path.endswith(".go"):
        return path.removeprefix("docs/")
    return None


def on_config(config):
    root = Path(config.config_file_path).parent
    links = RepositoryLinks(root, config.repo_url)
    config.extra["repository_links"] = links
    config.markdown_extensions.append(links)
    config.nav = expand(config.nav, Path(config.docs_dir), set(named(config.nav)))
    return config


def named(nav):
    """Returns the documents that a navigation names."""
    for entry in nav:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        if isinstance(value, list):
            yield from named(value)
        else:
            yield value


def expand(nav, docs, known):
    """Returns the navigation with an entry for each document that a pattern DIR/* matches."""
    result = []
    for entry in nav:
        if isinstance(entry, dict):
            result.append({title: expand(v, docs, known) if isinstance(v, list) else v for title, v in entry.items()})
        elif entry.endswith("/*"):
            found = sorted(p.relative_to(docs).as_posix() for p in docs.glob(entry + ".md"))
            if not found:
                raise ValueError(f"mkdocs.yml: nav: {entry} matches no document")
            result.extend(uri for uri in found if uri not in known)
        else:
            result.append(entry)
    return result


def on_files(files, config):
    root = Path(config.config_file_path).parent
    for path, uri in EXTRA_DOCUMENTS.items():
        files.append(File.generated(config, uri, content=(root / path).read_text()))
    script = os.environ["MERMAID"]
    files.append(File.generated(config, MERMAID_URI, abs_src_path=script, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown, page, config, files):
    config.extra["repository_links"].page = page
    return markdown


def on_page_content(html, page, config, files):
    return re.sub(r"<td.*?</td>", lambda cell: cell.group().replace("\\|", "|"), html, flags=re.DOTALL)


def on_post_page(output, page, config):
    if 'class="mermaid"' not in output:
        return output
    script = get_relative_url(MERMAID_URI, page.file.url)
    return output.replace("</head>", f'<script src="{script}"></script></head>', 1)
