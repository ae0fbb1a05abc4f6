package cli

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostile contains a secret in every form in which a page may have one.
const hostile = `{"kind":"Secret","data":{"x":"hunter2"},"password":"hunter2","log":"Authorization: Bearer hunter2hunter2\nPOST /?token=hunter2",
 "key":"-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----","url":"https://user:hunter2@example.com/",
 "env":[{"name":"DB_PASSWORD","value":"hunter2"}],"headers":[{"header":{"key":"x-api-key","value":"hunter2"}}],"kept":"reviews"}`

// readArchive returns the files of a report.
func readArchive(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(zipped); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(text)
	}
}

// TestBugReport reads a control plane whose pages are full of secrets, or missing.
func TestBugReport(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := "password=hunter2 kept=reviews\n"
		switch r.URL.Path {
		case "/api/v1/proxy-states":
			text = `{"proxies":[{"proxy":"web.shop"},{"proxy":"bad.shop","resources":{"x.Cluster":{"lastError":"password=hunter2"}}}]}`
		case "/debug/config_dump":
			if r.URL.Query().Get("proxyID") == "web.shop" {
				http.Error(w, "no token=hunter2", http.StatusNotFound)
				return
			}
			text = hostile
		case "/debug/configz":
			text = hostile
		case "/debug/nackz":
			text = `["broken", "password=hunter2`
		}
		_, _ = w.Write([]byte(text))
	}))
	defer s.Close()
	out := filepath.Join(t.TempDir(), "report.tar.gz")
	args := []string{"bug-report", "--out", out, "--server", strings.TrimPrefix(s.URL, "http://"), "--proxies", "2"}
	text, err := runCommand(t, args...)
	if err != nil || !strings.Contains(text, "1 could not be read") {
		t.Fatalf("%v %s", err, text)
	}
	files := readArchive(t, out)
	replica := "bug-report/replicas/" + fileName(strings.TrimPrefix(s.URL, "http://"))
	for _, name := range []string{replica + "/configz.json", replica + "/metrics", "bug-report/proxies/bad.shop/sent.json"} {
		if !strings.Contains(files[name], "reviews") {
			t.Errorf("%s: %q", name, files[name])
		}
	}
	for name, text := range files {
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s has a secret: %s", name, text)
		}
	}
	if !strings.Contains(files["bug-report/errors.txt"], "proxies/web.shop/sent.json") {
		t.Errorf("errors.txt: %q", files["bug-report/errors.txt"])
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the archive: %v %v", info, err)
	}
	if _, err := runCommand(t, args...); err == nil {
		t.Error("an existing file is replaced")
	}
}

// TestBugReportOfNamedProxy: a named proxy is in the report of a control plane that cannot list its
// proxies.
func TestBugReportOfNamedProxy(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/debug/config_dump" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(`{"configs":[]}`))
	}))
	defer s.Close()
	out := filepath.Join(t.TempDir(), "report.tar.gz")
	address := strings.TrimPrefix(s.URL, "http://")
	if text, err := runCommand(t, "bug-report", "--out", out, "--server", address, "--proxy", "web.shop"); err != nil {
		t.Fatalf("%v %s", err, text)
	}
	if files := readArchive(t, out); !strings.Contains(files["bug-report/proxies/web.shop/sent.json"], "configs") {
		t.Errorf("got %v", files)
	}
}
