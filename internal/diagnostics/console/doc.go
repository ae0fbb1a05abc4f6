// Package console serves the web console of the control plane below /ui/ (ADR 45).
//
// The input is the folder dist, which `make ui` builds from the sources in ui and which is part of
// the binary. The output are these files, with headers that keep a browser from running or
// embedding anything else. The pages have no data of their own: they read it from the read API
// (package readapi), which decides who may read what. So the files are served to callers without
// credentials too, who then sign in with a token.
//
// Every path below /ui/ that is no file is a page of the console, and is answered with index.html:
// links to a proxy, an object or an explained call can be shared.
//
// Start with [New].
package console
