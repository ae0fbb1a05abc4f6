// Package docs builds the documentation site as `make docs` does, and examines the result.
//
// Inputs: docs, mkdocs.yml and hack/docs. Output: a test failure for each broken link, for a page
// that loads something from another host, and for a diagram that Mermaid does not draw.
package docs
