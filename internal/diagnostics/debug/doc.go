// Package debug is the read-only pages that explain a running control plane: what it read, what it made of it, who is
// connected and what each of them was sent.
//
// In: ways to ask for the current snapshot and the connections. Out: the pages under /debug, over HTTP ([Pages.ServeHTTP]) and
// for any other transport ([Pages.Page], [ConfigDump]), with the paths and JSON shapes that istiod has (istioctl,
// Kiali and scripts read them), and some of our own. Law: hands out no live pointer: everything is written out before
// the page is answered; nobody sees more than the page's line in the table allows.
//
// Start with [Pages] in pages.go; table.go is the list of all pages, access.go who may see them. To add one: a file with
// its function, a line in the table that says what it shows and to whom, a golden.
package debug
