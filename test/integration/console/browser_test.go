package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// patience bounds every wait for a page.
const patience = 30 * time.Second

// axePath is axe-core as `make ui` installs it.
const axePath = "../../../internal/diagnostics/console/ui/node_modules/axe-core/axe.min.js"

// browser is a tab of a headless Chromium. A script that throws, a violation of the content security
// policy and a request to another host fail the test.
type browser struct {
	t    *testing.T
	ctx  context.Context //nolint:containedctx // of the tab, which ends with the test
	site string

	mu       sync.Mutex
	faults   []string
	requests []*network.Request
}

// newBrowser starts a browser until the test ends. Without Chromium it skips the test, or fails it
// if CI=true.
func newBrowser(t *testing.T, site string) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		const missing = "Chromium is missing: `make ui-test` as root installs it, and so does apt-get install chromium"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(patience))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeTab := chromedp.NewContext(allocator)
	b := &browser{t: t, ctx: ctx, site: site}
	t.Cleanup(func() {
		closeTab()
		stop()
		b.checkFaults()
	})
	if err := chromedp.Listen(ctx, b.record); err != nil {
		t.Fatal(err)
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	return b
}

// record stores errors of the page.
func (b *browser) record(event any) {
	var fault string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		fault = "exception: " + fmt.Sprint(e.ExceptionDetails.Text, " ", e.ExceptionDetails.Exception)
	case *log.EventEntryAdded:
		if e.Entry.Source == log.EntrySourceSecurity || strings.Contains(e.Entry.Text, "Content Security Policy") {
			fault = "log: " + e.Entry.Text
		}
	case *network.EventRequestWillBeSent:
		b.mu.Lock()
		b.requests = append(b.requests, e.Request)
		b.mu.Unlock()
		if u, err := url.Parse(e.Request.URL); err != nil || !strings.HasPrefix(e.Request.URL, b.site) && u.Scheme != "about" {
			fault = "request to another host: " + e.Request.URL
		}
	case *page.EventJavascriptDialogOpening:
		fault = "dialog: " + e.Message
	}
	if fault != "" {
		b.mu.Lock()
		b.faults = append(b.faults, fault)
		b.mu.Unlock()
	}
}

// hasSent reports whether the page has sent a request to a path of the read API with this header.
func (b *browser) hasSent(path, header string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.requests, func(r *network.Request) bool {
		return strings.HasPrefix(r.URL, b.site+"/api/v1"+path) && r.Headers[strings.ToLower(header)] != nil // fetch sends lower case
	})
}

// checkFaults fails the test if the page had faults.
func (b *browser) checkFaults() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		b.t.Error(f)
	}
}

// call sends a command of the DevTools protocol to a tab.
func call[P, R any](b *browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatalf("%s: %v", command.Method, err)
	}
}

// run runs an action within patience, and returns its result.
func run[T any](b *browser, what string, action chromedp.Action[T]) T {
	b.t.Helper()
	value, err := try(b, action)
	if err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
	return value
}

// try runs an action within patience, and returns its result. It fails if another page is opened
// meanwhile.
func try[T any](b *browser, action chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, action)
}

// open opens a page of the console.
func (b *browser) open(path string) {
	b.t.Helper()
	run(b, "open "+path, chromedp.Navigate(b.site+"/ui/"+path))
}

// readText returns the action that reads the text of the page.
func readText() chromedp.Action[string] {
	return chromedp.Evaluate[string](`document.body?.innerText ?? ''`)
}

// text returns the text of the page.
func (b *browser) text() string {
	b.t.Helper()
	return run(b, "read the page", readText())
}

// await waits until the page has all texts, also while another page is being opened.
func (b *browser) await(texts ...string) {
	b.t.Helper()
	serving.Eventually(b.t, patience, fmt.Sprintf("the page has %q", texts), func() error {
		now, err := try(b, readText())
		if err != nil {
			return err
		}
		for _, want := range texts {
			if !strings.Contains(now, want) {
				return fmt.Errorf("%q is missing in:\n%s", want, now)
			}
		}
		return nil
	})
}

// fill replaces the value of a field.
func (b *browser) fill(selector, value string) {
	b.t.Helper()
	run(b, "wait for "+selector, chromedp.WaitVisible(chromedp.CSS(selector)))
	b.runScript(fmt.Sprintf(
		`{ const f = document.querySelector(%q); f.value = %q; f.dispatchEvent(new Event('input', {bubbles: true})) }`, selector, value))
}

// click clicks the first visible element of a selector.
func (b *browser) click(selector string) {
	b.t.Helper()
	run(b, "click "+selector, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// press presses keys, one after the other.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		run(b, fmt.Sprintf("press %q", k), chromedp.KeyEvent(k))
	}
}

// runScript runs a script in the page.
func (b *browser) runScript(script string) {
	b.t.Helper()
	run(b, script, chromedp.Evaluate[chromedp.Void](script))
}

// awaitScript waits until an expression is true in the page.
func (b *browser) awaitScript(expression string) {
	b.t.Helper()
	serving.Until(b.t, patience, expression, func() bool { return run(b, expression, chromedp.Evaluate[bool](expression)) })
}

// resize sets the size of the window, and the preferred color scheme: light or dark.
func (b *browser) resize(width, height int64, scheme string) {
	b.t.Helper()
	run(b, "resize", chromedp.EmulateViewport(width, height))
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// checkAccessibility fails the test for each violation that axe finds. It does nothing if axe is not
// installed.
func (b *browser) checkAccessibility(what string) {
	b.t.Helper()
	axe, err := os.ReadFile(axePath)
	if err != nil {
		b.t.Logf("%s: accessibility is not checked: axe-core is missing, `make ui` installs it", what)
		return
	}
	b.runScript(string(axe))
	found := run(b, "run axe", chromedp.Evaluate[string](
		`axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}).then(r => JSON.stringify(
			r.violations.map(v => v.id + ': ' + v.help + ': ' + v.nodes.slice(0, 3).map(n => n.html + ' ' + n.failureSummary).join(' / '))))`,
		chromedp.EvalAwaitPromise))
	var list []string
	if err := json.Unmarshal([]byte(found), &list); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range list {
		b.t.Errorf("%s: %s", what, v)
	}
}

// checkWidth fails the test if the page is wider than the window.
func (b *browser) checkWidth(what string) {
	b.t.Helper()
	excess := run(b, "measure", chromedp.Evaluate[int](`document.documentElement.scrollWidth - window.innerWidth`))
	if excess > 0 {
		b.t.Errorf("%s: the page is %d px wider than the window", what, excess)
	}
}

// screenshot writes a screenshot of the window to the folder of the flag, if that is set and
// docs/CONSOLE.md shows the screenshot.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	shown, err := os.ReadFile("../../../docs/CONSOLE.md")
	if err != nil {
		b.t.Fatal(err)
	}
	if !strings.Contains(string(shown), `(console/`+name+`.png)`) && !strings.Contains(string(shown), `"console/`+name+`.png"`) {
		return
	}
	image := run(b, "take a screenshot", chromedp.CaptureScreenshot())
	if err := os.WriteFile(*screenshots+"/"+name+".png", image, 0o644); err != nil { //nolint:gosec // documentation
		b.t.Fatal(err)
	}
}
