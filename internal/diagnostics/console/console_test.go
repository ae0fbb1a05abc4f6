package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// newHandler returns a console that accepts the token "system" for a system namespace and "shop"
// for a workload.
func newHandler() http.Handler {
	return New(debug.Access{
		Authenticate: func(r *http.Request) (string, error) {
			switch r.Header.Get("Authorization") {
			case "Bearer system":
				return "istio-system", nil
			case "Bearer shop":
				return "shop", nil
			}
			return "", errors.New("no token")
		},
		SystemNamespaces: []string{"istio-system"},
	})
}

// request is a request from the loopback interface, unless change says otherwise.
func request(method, path string, change func(*http.Request)) *http.Response {
	r := httptest.NewRequest(method, "http://localhost:8080"+path, nil)
	r.RemoteAddr = "127.0.0.1:1234"
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	newHandler().ServeHTTP(w, r)
	return w.Result()
}

// asset returns the path of the built file with this extension.
func asset(t *testing.T, extension string) string {
	t.Helper()
	list, err := fs.Glob(Files(), "assets/*"+extension)
	if err != nil || len(list) == 0 {
		t.Fatalf("no asset %s: %v", extension, err)
	}
	return Prefix + list[0]
}

func TestAccess(t *testing.T) {
	elsewhere := func(token string) func(*http.Request) {
		return func(r *http.Request) {
			r.RemoteAddr = "10.0.0.1:1234"
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
		}
	}
	for _, path := range []string{"/ui/", "/ui/proxies/web.shop", asset(t, ".js")} {
		for name, c := range map[string]struct {
			method string
			change func(*http.Request)
			want   int
		}{
			"the machine itself":         {http.MethodGet, nil, http.StatusOK},
			"HEAD":                       {http.MethodHead, nil, http.StatusOK},
			"DNS rebinding":              {http.MethodGet, func(r *http.Request) { r.Host = "evil.example" }, http.StatusForbidden},
			"elsewhere without a token":  {http.MethodGet, elsewhere(""), http.StatusOK}, // to sign in
			"elsewhere with a bad token": {http.MethodGet, elsewhere("x"), http.StatusOK},
			"a system namespace":         {http.MethodGet, elsewhere("system"), http.StatusOK},
			"a workload":                 {http.MethodGet, elsewhere("shop"), http.StatusOK},
			"POST":                       {http.MethodPost, nil, http.StatusMethodNotAllowed},
			"DELETE":                     {http.MethodDelete, nil, http.StatusMethodNotAllowed},
		} {
			if got := request(c.method, path, c.change).StatusCode; got != c.want {
				t.Errorf("%s of %s: %d, want %d", path, name, got, c.want)
			}
		}
	}
}

func TestSecurityHeaders(t *testing.T) {
	for _, path := range []string{"/ui/", "/ui/explain?proxy=x", "/ui/favicon.svg", "/ui/assets/absent.js", asset(t, ".js"), asset(t, ".css")} {
		h := request(http.MethodGet, path, nil).Header
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		policy := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the content security policy has no %s: %s", path, want, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") || strings.Contains(policy, "*") {
			t.Errorf("%s: the content security policy is %s", path, policy)
		}
	}
}

func TestPagesAndFiles(t *testing.T) {
	for path, want := range map[string]struct {
		status             int
		contentType, cache string
	}{
		"/ui/":                              {200, "text/html; charset=utf-8", "no-cache"},
		"/ui/proxies/web.shop":              {200, "text/html; charset=utf-8", "no-cache"},
		"/ui/objects/VirtualService/a/b.js": {200, "text/html; charset=utf-8", "no-cache"},
		"/ui/../../etc/passwd":              {400, "text/plain; charset=utf-8", ""},
		"/ui/%2e%2e/%2e%2e/etc/passwd":      {400, "text/plain; charset=utf-8", ""},
		"/ui/assets/index-old.js":           {404, "text/plain; charset=utf-8", ""},
		"/ui/favicon.svg":                   {200, "image/svg+xml", "no-cache"},
		asset(t, ".js"):                     {200, "text/javascript; charset=utf-8", "private, max-age=31536000, immutable"},
		asset(t, ".css"):                    {200, "text/css; charset=utf-8", "private, max-age=31536000, immutable"},
	} {
		r := request(http.MethodGet, path, nil)
		if r.StatusCode != want.status || r.Header.Get("Content-Type") != want.contentType || r.Header.Get("Cache-Control") != want.cache {
			t.Errorf("%s: %d %q %q, want %v", path, r.StatusCode, r.Header.Get("Content-Type"), r.Header.Get("Cache-Control"), want)
		}
	}
}

// TestSize limits the whole console to 400 kB, compressed.
func TestSize(t *testing.T) {
	const limit = 400_000
	var total int
	err := fs.WalkDir(Files(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(Files(), path)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(body); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		total += b.Len()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if total > limit || total < 10_000 {
		t.Errorf("the console has %d bytes gzipped, want at most %d", total, limit)
	}
}

// TestBuiltFromSources shows that dist was built after the last change of a source, by the hashes
// that `make ui` writes.
func TestBuiltFromSources(t *testing.T) {
	recorded, err := os.ReadFile("sources.sha256")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(recorded)) {
		hash, path, _ := strings.Cut(strings.TrimSpace(line), "  ")
		want[path] = hash
	}
	got := map[string]string{}
	err = filepath.WalkDir("ui", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "node_modules":
			return filepath.SkipDir
		case d.IsDir() || strings.HasPrefix(d.Name(), "."):
			return nil
		}
		body, err := os.ReadFile(path)
		got[path] = fmt.Sprintf("%x", sha256.Sum256(body))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, hash := range got {
		if want[path] != hash {
			t.Errorf("%s was changed since dist was built: run `make ui`", path)
		}
		delete(want, path)
	}
	for path := range want {
		t.Errorf("%s was removed since dist was built: run `make ui`", path)
	}
}

// TestNoMarkupFromTexts shows that no source circumvents the escaping of texts, and that the built
// page has no inline script.
func TestNoMarkupFromTexts(t *testing.T) {
	forbidden := regexp.MustCompile(`\{@html|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|javascript:`)
	var sources []string
	err := filepath.WalkDir("ui/src", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			sources = append(sources, path)
		}
		return err
	})
	if err != nil || len(sources) < 15 {
		t.Fatalf("%d sources, %v", len(sources), err)
	}
	for _, path := range sources {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if found := forbidden.Find(body); found != nil {
			t.Errorf("%s has %s", path, found)
		}
	}
	page, err := fs.ReadFile(Files(), "index.html")
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`<script[^>]*>[^<]|<style|\son\w+=|https?:`).Find(page); found != nil {
		t.Errorf("index.html has %s", found)
	}
}

// TestFilesAreCompressed reads files as browsers do.
func TestFilesAreCompressed(t *testing.T) {
	for _, path := range []string{"/ui/", asset(t, ".js"), asset(t, ".css")} {
		plain := request(http.MethodGet, path, nil)
		zipped := request(http.MethodGet, path, func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip, br") })
		if zipped.Header.Get("Content-Encoding") != "gzip" || plain.Header.Get("Content-Encoding") != "" || zipped.Header.Get("Vary") == "" {
			t.Errorf("%s: %v, and without compression %v", path, zipped.Header, plain.Header)
			continue
		}
		if a, b := zipped.Header.Get("Content-Type"), plain.Header.Get("Content-Type"); a != b {
			t.Errorf("%s is of type %s, and without compression %s", path, a, b)
		}
		text, err := gzip.NewReader(zipped.Body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(text)
		if err != nil {
			t.Fatal(err)
		}
		want, err := io.ReadAll(plain.Body)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs when it is compressed: %v", path, err)
		}
	}
}
