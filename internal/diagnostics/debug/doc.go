// Package debug serves the read-only pages that explain a running control plane: its configuration,
// the state derived from it, the connected proxies, and the resources that each proxy was sent.
//
// The inputs are functions that return the current snapshot, the connections and other state
// ([Options]). The outputs are the pages under /debug, over HTTP ([Pages.ServeHTTP]) and for any
// other transport ([Pages.Page], [ConfigDump]). Most pages have istiod's paths and JSON shapes,
// because istioctl, Kiali and scripts read them. The other pages are specific to meshpilot.
//
// Two invariants hold. No page returns a pointer to live state: a page is fully serialized before
// the response is sent. A caller can read a page only if the audience of the page in the table
// admits the caller.
//
// Start reading with [Pages] in pages.go. The list of all pages is in table.go, and access control
// is in access.go. To add a page, add a file with its function, a line in the table with its help
// text and audience, and a golden file.
package debug
