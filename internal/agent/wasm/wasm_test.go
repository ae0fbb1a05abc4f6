package wasm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// module returns the smallest valid module: the magic number and version.
func module(more ...byte) []byte { return append([]byte("\x00asm\x01\x00\x00\x00"), more...) }

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// archive returns a tar archive with headers; regular files have that content.
func archive(t *testing.T, content []byte, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		h.Mode = 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write(content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// repeatGzip compresses b n times.
func repeatGzip(t *testing.T, b []byte, n int) []byte {
	t.Helper()
	for range n {
		b = gzipped(t, b)
	}
	return b
}

func file(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg} }

func newCache(t *testing.T, change ...func(*Options)) *Cache {
	t.Helper()
	o := Options{Dir: t.TempDir(), Expiry: time.Hour, PurgeInterval: time.Hour, Timeout: 20 * time.Second, Dialer: &net.Dialer{}, Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&o)
	}
	c := NewCache(o)
	t.Cleanup(c.fetch.closeIdle)
	return c
}

// TestUnpack tests plain, compressed and archived modules, and that links in archives are not
// followed.
func TestUnpack(t *testing.T) {
	const limit = 1 << 20
	for name, test := range map[string]struct {
		in   []byte
		want string // of the error
	}{
		"a module":             {module(), ""},
		"compressed":           {gzipped(t, module()), ""},
		"an archive":           {archive(t, module(), file("readme"), file("plugin.wasm")), ""},
		"a compressed archive": {gzipped(t, archive(t, module(), file("./plugin.wasm"))), ""},
		"a folder":             {archive(t, module(), tar.Header{Name: "app/", Typeflag: tar.TypeDir}, file("app/plugin.wasm")), ""},
		"outside":              {archive(t, module(), file("../plugin.wasm")), ""},
		"absolute":             {archive(t, module(), file("/plugin.wasm")), ""},
		"another name":         {gzipped(t, archive(t, module(), file("filter.wasm"))), ""},
		"compressed inside":    {archive(t, gzipped(t, module()), file("filter.wasm.gz")), ""},
		"an archive inside":    {archive(t, gzipped(t, archive(t, module(), file("a.wasm"))), file("a.tar.gz")), ""},
		"eight layers":         {repeatGzip(t, module(), maxNesting), ""},
		"nine layers":          {repeatGzip(t, module(), maxNesting+1), "no Wasm module within 8 layers"},
		"nothing":              {nil, "no file among"},
		"a page":               {[]byte("<html>" + strings.Repeat(" ", 600)), "neither a Wasm module nor an archive"},
		"compressed nonsense":  {[]byte{0x1f, 0x8b, 1}, "decompress"},
		"a link":               {archive(t, nil, tar.Header{Name: "plugin.wasm", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), "no file among"},
		"not a module inside":  {archive(t, []byte("text"), file("plugin.wasm")), "neither a Wasm module nor an archive"},
		"a bomb":               {gzipped(t, make([]byte, limit+1)), "exceeds the size limit"},
		"a bomb inside":        {archive(t, gzipped(t, make([]byte, limit+1)), file("plugin.wasm")), "exceeds the size limit"},
		"many files":           {archive(t, nil, make([]tar.Header, maxEntries+1)...), "no file among"},
	} {
		got, err := extractModule(test.in, limit)
		if test.want == "" && (err != nil || !bytes.Equal(got, module())) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %.100q, %v; want …%s…", name, got, err, test.want)
		}
	}
}

// TestRefused tests that addresses of metadata servers are refused in any notation.
func TestRefused(t *testing.T) {
	for text, want := range map[string]bool{
		"169.254.169.254": true, "::ffff:169.254.169.254": true, "fe80::1": true, "fd00:ec2::254": true, "0.0.0.0": true, "::": true, "224.0.0.1": true,
		"100.100.100.200": true, "192.0.0.192": true, "fd20:ce::254": true, "64:ff9b::a9fe:a9fe": true, "2002:a9fe:a9fe::1": true,
		"10.0.0.1": false, "127.0.0.1": false, "192.0.2.1": false, "fd00::1": false, "2001:db8::1": false,
	} {
		err := guardedDialer(new(net.Dialer)).Control("tcp", netip.AddrPortFrom(netip.MustParseAddr(text), 80).String(), nil)
		if (err != nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	server := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest", http.StatusFound))
	defer server.Close()
	c := newCache(t)
	for _, address := range []string{"http://169.254.169.254/m", "http://[::ffff:a9fe:a9fe]/m", server.URL, "oci://169.254.169.254/a:b", "oci://[fe80::1]:5000/a:b"} {
		_, err := c.FilePath(t.Context(), Module{URL: address, Timeout: 20 * time.Second})
		if err == nil || !strings.Contains(err.Error(), "fetching from this address is forbidden") && !strings.Contains(err.Error(), "could not parse reference") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestWebServer tests that modules are fetched once, verified, and fetched again by their policy.
func TestWebServer(t *testing.T) {
	var asked atomic.Int64
	fails := atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch {
		case fails.Add(-1) >= 0:
			http.Error(w, "busy", http.StatusServiceUnavailable)
		case r.URL.Path == "/none":
			http.NotFound(w, r)
		case r.URL.Path == "/slow":
			<-r.Context().Done()
		default:
			_, _ = w.Write(module([]byte(r.URL.Path)...))
		}
	}))
	defer server.Close()
	c := newCache(t, func(o *Options) { o.Retries = 2 })
	get := func(m Module) (string, error) {
		m.URL = server.URL + m.URL
		return c.FilePath(t.Context(), m)
	}
	want := func(path string, err error, n int64) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || !isModule(b) {
			t.Errorf("%s has %q, %v", path, b, err)
		}
		if got := asked.Swap(0); got != n {
			t.Errorf("asked %d times, want %d", got, n)
		}
	}
	fails.Store(2)
	path, err := get(Module{URL: "/a"})
	want(path, err, 3)
	path, err = get(Module{URL: "/a"})
	want(path, err, 0)
	path, err = get(Module{URL: "/a", Checksum: sumOf(module([]byte("/a")...))})
	want(path, err, 1)
	path, err = get(Module{URL: "/a", AlwaysFetch: true, Version: "1"})
	want(path, err, 1)
	path, err = get(Module{URL: "/a", AlwaysFetch: true, Version: "1"})
	want(path, err, 0)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	path, err = get(Module{URL: "/a"})
	want(path, err, 1)

	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, err := get(Module{URL: "/b"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := asked.Swap(0); n != 1 {
		t.Errorf("asked %d times", n)
	}
	for m, want := range map[difference]string{
		{"/a", strings.Repeat("0", 64), 0}: "SHA-256 is", {"/none", "", 0}: "404", {"/slow", "", 10 * time.Millisecond}: "deadline exceeded",
	} {
		if _, err := get(Module{URL: m.url, Checksum: m.checksum, Timeout: m.timeout}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want …%s…", m, err, want)
		}
	}
	if _, err := c.FilePath(t.Context(), Module{URL: "file:///etc/passwd"}); err == nil {
		t.Error("a file is fetched")
	}
	// An unused module is evicted; its file is removed with the last entry that has it.
	c.evictExpired(time.Now().Add(2 * time.Hour))
	if left, err := os.ReadDir(c.o.Dir); err != nil || len(left) > 0 || len(c.files) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestReplacedVersionIsEvicted: the file of a version that another one replaced stays until it expires.
func TestReplacedVersionIsEvicted(t *testing.T) {
	var version atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(module(byte(version.Add(1))))
	}))
	defer server.Close()
	c := newCache(t)
	for _, v := range []string{"1", "2"} {
		if _, err := c.FilePath(t.Context(), Module{URL: server.URL, AlwaysFetch: true, Version: v}); err != nil {
			t.Fatal(err)
		}
	}
	files := func() int {
		list, err := os.ReadDir(c.o.Dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if n := files(); n != 2 {
		t.Errorf("%d files of two versions", n)
	}
	c.evictExpired(time.Now().Add(2 * time.Hour))
	if n := files(); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

// difference is how a module of the table differs.
type difference struct {
	url, checksum string
	timeout       time.Duration
}
