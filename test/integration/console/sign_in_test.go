package console

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// accounts are the service accounts of TestSignIn, and an object of each namespace with a mistake.
const accounts = `
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: istiod, namespace: istio-system}
spec: {template: {serviceAccount: istiod}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: web, namespace: shop}
spec: {template: {serviceAccount: web}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: of-shop, namespace: shop}
spec: {hosts: [cart], http: [{timeout: soon}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: of-bank, namespace: bank}
spec: {hosts: [pay], http: [{timeout: soon}]}
`

// TestSignIn opens the console of a control plane over a network, where it needs a token. Documents
// and events are read with it, also after the control plane has restarted. A token of a workload shows
// what belongs to its namespace.
func TestSignIn(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("accounts.yaml", accounts)
	o := controlplane.Options(t)
	o.HTTPAddr, o.ConfigDir, o.PodName = networkAddress(t), dir, "istiod-1"
	o.Authority.Dir, o.SecureGRPCAddr = t.TempDir(), serving.FreeAddress(t)
	plane := controlplane.Start(t, o)
	token := func(namespace, account string) string {
		key, err := ca.ReadTokenKey(o.Authority.Dir)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := authenticate.SignWorkloadToken(key, namespace, account, []string{"istio-ca"}, time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	b := newBrowser(t, "http://"+plane.HTTP)
	b.resize(1280, 900, "light")
	signIn := func(token string) {
		b.fill("#token", token)
		b.click("form button.primary")
	}
	b.open("objects")
	b.await("Sign in", "needs a token", "Not signed in", "kubectl create token -n istio-system istiod")
	b.checkAccessibility("sign in")
	b.screenshot("sign-in-light")
	signIn("x.y.z")
	b.await("does not accept this token")
	signIn("Bearer " + token("istio-system", "istiod"))
	b.await("of-shop", "of-bank", "Live", "Sign out")

	// Events are read with the token, and continue after the control plane was away.
	b.open("")
	b.await("2 errors", "Live")
	write("more.yaml", strings.ReplaceAll(accounts[strings.Index(accounts, "kind: VirtualService")-len("apiVersion: networking.istio.io/v1\n"):], "name: of-", "name: more-of-"))
	b.await("4 errors", "VirtualService/bank/more-of-bank")
	plane.Stop()
	b.await("Reconnecting", "The control plane does not answer. What is shown may be outdated.")
	controlplane.Start(t, o)
	b.await("Live", "4 errors")
	b.awaitScript(`!document.body.innerText.includes('What is shown may be outdated')`)
	if !b.hasSent("/overview/events", "Last-Event-ID") {
		t.Error("no stream was continued with Last-Event-ID")
	}

	b.click(".foot button.small")
	b.await("Sign in", "needs a token")
	signIn(token("shop", "web"))
	b.await("2 errors", "VirtualService/shop/of-shop")
	if text := b.text(); strings.Contains(text, "bank") {
		t.Errorf("a workload of shop sees\n%s", text)
	}
}

// networkAddress returns a free address of this machine that is not on the loopback interface. It
// skips the test if the machine has none.
func networkAddress(t *testing.T) string {
	t.Helper()
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		ip, ok := a.(*net.IPNet)
		if !ok || ip.IP.To4() == nil || ip.IP.IsLoopback() || ip.IP.IsLinkLocalUnicast() {
			continue
		}
		return net.JoinHostPort(ip.IP.String(), strconv.Itoa(serving.FreePort(t)))
	}
	t.Skip("this machine has no address beside those of the loopback interface")
	return ""
}
