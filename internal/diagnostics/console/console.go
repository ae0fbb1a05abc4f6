package console

import (
	"bytes"
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/httpgzip"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// Prefix is the path below which the console is served.
const Prefix = "/ui/"

// assets is the folder whose files have a hash of their content in their names.
const assets = "assets/"

// contentSecurityPolicy admits scripts, styles, images and requests of this server only. It forbids
// inline scripts and styles, forms that are sent, and frames.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types svelte-trusted-html"

//go:embed dist
var built embed.FS

// Files returns the built files of the console, with index.html at the root.
func Files() fs.FS {
	files, err := fs.Sub(built, "dist")
	if err != nil {
		panic(err) // only an invalid path
	}
	return files
}

// New returns the handler of the console's files; the read API, which has the data and requires
// credentials, is another handler. It serves only GET and HEAD, and answers others with 405. A
// missing asset is 404; any other path that is no file is answered with index.html. Files need no
// credentials, because a browser sends none when it opens a page, but a request over the loopback
// interface for another host is refused with 403.
func New(access debug.Access) http.Handler {
	files := Files()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setSecurityHeaders(w.Header())
		if _, refused := access.CallerOf(r); refused == http.StatusForbidden {
			http.Error(w, "the console is at http://localhost:8080/ui/ of the machine itself", refused)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the console is read with GET", http.StatusMethodNotAllowed)
			return
		}
		name := strings.TrimPrefix(path.Clean(r.URL.Path), strings.TrimSuffix(Prefix, "/"))
		name = strings.TrimPrefix(name, "/")
		info, err := fs.Stat(files, name)
		isFile, isAsset := err == nil && !info.IsDir(), strings.HasPrefix(name, assets)
		switch {
		case isAsset && isFile:
			w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
		case isAsset:
			http.NotFound(w, r) // of another release, and not a page
			return
		case isFile:
			w.Header().Set("Cache-Control", "no-cache")
		default:
			w.Header().Set("Cache-Control", "no-cache")
			name = "index.html"
		}
		serveFile(w, r, files, name)
	})
}

// zippedFiles returns the files, compressed, by name. It compresses them at the first call.
var zippedFiles = sync.OnceValue(func() map[string][]byte {
	zipped := map[string][]byte{}
	files := Files()
	_ = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		zipped[name] = httpgzip.Compress(text)
		return err
	}) // embedded files can be read
	return zipped
})

// serveFile serves a file of files, which must exist, compressed if the client accepts gzip.
func serveFile(w http.ResponseWriter, r *http.Request, files fs.FS, name string) {
	w.Header().Set("Vary", "Accept-Encoding")
	if !httpgzip.IsAccepted(r) {
		http.ServeFileFS(w, r, files, name)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(zippedFiles()[name]))
}

// setSecurityHeaders sets the headers that restrict what browsers do with a response: content
// security policy, same-origin isolation, no referrer, no sniffing of types, and no frames. Headers
// of these names are replaced.
func setSecurityHeaders(h http.Header) {
	for name, value := range map[string]string{
		"Content-Security-Policy":      contentSecurityPolicy,
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Referrer-Policy":              "no-referrer",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
	} {
		h.Set(name, value)
	}
}
