package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
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
