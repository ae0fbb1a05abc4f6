package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// TestScripts runs the command lines of testdata. The files below pages are a control plane's pages, those below scopej its
// ControlZ; $SERVER is where it is. PUTs are remembered: puts prints them.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			var puts []string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					puts = append(puts, r.URL.Path)
					w.WriteHeader(http.StatusAccepted)
					return
				}
				name := strings.TrimPrefix(r.URL.RequestURI(), "/debug/")
				body, err := os.ReadFile(filepath.Join(e.WorkDir, "pages", strings.Trim(name, "/")))
				if err != nil {
					http.Error(w, "no such page: "+name, http.StatusNotFound)
					return
				}
				_, _ = w.Write(body)
			}))
			e.Defer(s.Close)
			e.Values["puts"], e.Values["code"] = &puts, new(int)
			e.Setenv("SERVER", strings.TrimPrefix(s.URL, "http://"))
			e.Setenv("TZ", "UTC")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"pilotctl": func(ts *testscript.TestScript, neg bool, args []string) {
				c := New()
				folder := strings.NewReplacer(ts.Getenv("WORK")+"/", "")
				var out, errs strings.Builder
				c.SetOut(&out)
				c.SetErr(&errs)
				if at := slices.Index(args, "<"); at >= 0 { // as in a shell
					c.SetIn(strings.NewReader(ts.ReadFile(args[at+1])))
					args = args[:at]
				}
				c.SetArgs(args)
				err := c.Execute()
				_, _ = folder.WriteString(ts.Stdout(), out.String())
				_, _ = folder.WriteString(ts.Stderr(), errs.String())
				*ts.Value("code").(*int) = ExitCode(err)
				if err != nil {
					_, _ = ts.Stderr().Write([]byte("pilotctl: " + folder.Replace(err.Error()) + "\n")) // as main does
				}
				if (err != nil) != neg {
					ts.Fatalf("pilotctl %s: error %v", strings.Join(args, " "), err)
				}
			},
			"exitcode": func(ts *testscript.TestScript, _ bool, args []string) {
				if got := strconv.Itoa(*ts.Value("code").(*int)); got != args[0] {
					ts.Fatalf("the exit code is %s, want %s", got, args[0])
				}
			},
			"puts": func(ts *testscript.TestScript, _ bool, _ []string) {
				_, _ = ts.Stdout().Write([]byte(strings.Join(*ts.Value("puts").(*[]string), "\n") + "\n"))
			},
		},
	})
}

func TestMatchText(t *testing.T) {
	for want, m := range map[string]map[string]any{
		"/*":                   {"prefix": "/"},
		"/api/*":               {"prefix": "/api/"},
		"/exact":               {"path": "/exact"},
		"regex ^/a.*$":         {"safeRegex": map[string]any{"regex": "^/a.*$"}},
		"/v1/* (headers)":      {"pathSeparatedPrefix": "/v1", "headers": []any{}},
		"/* (queryParameters)": {"prefix": "/", "queryParameters": []any{}},
	} {
		if got := matchText(m); got != want {
			t.Errorf("%v: %q, want %q", m, got, want)
		}
	}
}

// TestAge formats how long times are ago, also of a replica whose clock is ahead.
func TestAge(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for want, at := range map[string]time.Time{
		"-": {}, "0s": now.Add(time.Second), "90s": now.Add(-90 * time.Second), "3h20m": now.Add(-200 * time.Minute), "9d": now.Add(-9 * 24 * time.Hour),
	} {
		if got := age(at, now); got != want {
			t.Errorf("%s ago: %s, want %s", now.Sub(at), got, want)
		}
	}
}

// TestProxiesHaveAges compares the rows of a proxy that has connected five minutes ago.
func TestProxiesHaveAges(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	list := []proxyState{{SyncStatus: debug.SyncStatus{
		Proxy: "web.shop", ConnectedAt: now.Add(-5 * time.Minute),
		Resources: map[string]debug.ResourceStatus{"t/x.Cluster": {Sent: "1", Acked: "1", SentTime: now.Add(-time.Minute)}},
	}}}
	if row := statusRows(list, now)[0]; !slices.Contains(row, "5m") {
		t.Errorf("no age in %q", row)
	}
	if row := typeRows(list, now)[0]; row[len(row)-1] != "60s" {
		t.Errorf("no age in %q", row)
	}
}

// TestRevisionFlag: --revision is refused by commands that read a cluster and not a revision of the
// control plane in it.
func TestRevisionFlag(t *testing.T) {
	for line, refused := range map[string]bool{
		"check-inject a.b": true, "tag list": true, "tag remove a": true, "revision list": true, "revision describe a": true,
		"create-remote-secret": true, "metrics a": true, "rootca-compare a b": true,
		"tag set a": false, "tag generate a": false, "dashboard controlz": false, "check": false, "proxy-status": false,
	} {
		c := New()
		c.SilenceErrors = true
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		c.SetArgs(append(strings.Fields(line), "--revision", "canary", "--kubeconfig", filepath.Join(t.TempDir(), "none")))
		err := c.Execute()
		if err == nil || strings.HasPrefix(err.Error(), "--revision has no effect on ") != refused {
			t.Errorf("%s: %v, want it refused: %v", line, err, refused)
		}
	}
}
