package console

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// markedLines is an expression for the marked lines of an object.
const markedLines = `[...document.querySelectorAll('.line[aria-current] .text')].map(l => l.textContent.trim()).join(' ')`

// TestExplainForm finds out in the console why Jason sees stars, follows the rule to its lines, computes
// what a change of it would do, and runs the copied command in a shell.
func TestExplainForm(t *testing.T) {
	f := newFixture(t, "destination-rule-all", "virtual-service-reviews-test-v2")
	f.open("explain")
	f.fill("#proxy", "productpage-v1.default")
	f.fill("#url", "reviews:9080/reviews/0") // without a scheme
	f.fill("#headers", "end-user: jason")
	f.click("form button.primary")
	f.await("Forwarded to reviews.default.svc.cluster.local, port 9080, subset v2", "end-user is jason",
		"pilotctl explain productpage-v1.default http://reviews:9080/reviews/0 -H 'end-user: jason'")
	f.click(`main a[href="/ui/objects/VirtualService/default/reviews?field=spec.http%5B0%5D.match%5B0%5D"]`)
	f.await("default/reviews", "Try a change of it")
	f.awaitScript(markedLines + ` === '- headers: end-user: exact: jason'`)

	f.click(`main a[href^="/ui/what-if?object="]`)
	f.awaitScript(`document.querySelector('#yaml')?.value.includes('exact: jason')`)
	f.fill("#yaml", strings.Replace(run(f.browser, "read the form", chromedp.Evaluate[string](`document.querySelector('#yaml').value`)),
		"exact: jason", "exact: o'neill", 1))
	f.click("form button.primary")
	f.await("proxies change", "o'neill")
	f.runScript(`navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve() }`)
	f.click(".command button")
	f.await("Copied")
	copied := run(f.browser, "read the copied command", chromedp.Evaluate[string](`window.copied`))
	script := "pilotctl() { echo \"$@\"; cat; }\n" + copied
	out, err := exec.CommandContext(t.Context(), "bash", "-c", script).CombinedOutput()
	if text := string(out); err != nil || !strings.HasPrefix(text, "diff -f -\n") || !strings.Contains(text, "exact: o'neill") {
		t.Errorf("the shell runs %q as: %s%v", copied, out, err)
	}

	// In a narrow window the row of sections shows the current one.
	f.resize(360, 740, "light")
	f.click(`nav a[href="/ui/mesh"]`)
	f.await("Replicas of the control plane")
	f.awaitScript(`(r => r.left >= 0 && r.right <= window.innerWidth)(document.querySelector('nav a[href="/ui/mesh"]').getBoundingClientRect())`)
	f.resize(1280, 900, "light")
	f.runScript(`history.back()`)

	// The form is as it was after a visit of another page.
	f.click(`nav a[href="/ui/objects"]`)
	f.await("5 objects shown")
	f.runScript(`history.back()`)
	f.awaitScript(`document.querySelector('#yaml')?.value.includes("exact: o'neill")`)
	f.await("proxies change")
}
