package chart

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// atStart are the permissions that a control plane uses within seconds of its start: to watch the
// kinds that the chart's ClusterRole names.
func atStart(rules []rbacv1.PolicyRule) (list []grant) {
	for _, g := range grantsOf("", rules) {
		if g.verb == "watch" && g.resource != "*" {
			list = append(list, g)
		}
	}
	return list
}

// without returns the rules without one verb of one resource.
func without(rules []rbacv1.PolicyRule, g grant) (out []rbacv1.PolicyRule) {
	for _, r := range rules {
		if !slices.Contains(r.APIGroups, g.group) || !slices.Contains(r.Resources, g.resource) || !slices.Contains(r.Verbs, g.verb) {
			out = append(out, r)
			continue
		}
		rest, other := *r.DeepCopy(), *r.DeepCopy()
		rest.Resources = slices.DeleteFunc(rest.Resources, func(s string) bool { return s == g.resource })
		other.Resources = []string{g.resource}
		other.Verbs = slices.DeleteFunc(other.Verbs, func(s string) bool { return s == g.verb })
		for _, one := range []rbacv1.PolicyRule{rest, other} {
			if len(one.Resources) > 0 && len(one.Verbs) > 0 {
				out = append(out, one)
			}
		}
	}
	return out
}

// TestEachDroppedPermissionIsNoticed removes the permissions to watch, one at a time, and starts a
// control plane. The API server denies its requests, its log names the resource that it may not
// read, and it keeps running.
func TestEachDroppedPermissionIsNoticed(t *testing.T) {
	longtest.Test(t)
	flags, log := auditing(t)
	c := cluster.Start(t, cluster.Options{
		GatewayAPI: cluster.Standard, IstioKinds: true, CRDs: []string{clusterSetKinds(t)}, APIServerArgs: flags,
	})
	h := newHelm(t, c.Kubeconfig())
	values := []string{"autoscaleEnabled=false", "gatewaySecrets.namespaces={shop}"}
	createNamespace(t, c, "shop")
	h.run(t, append([]string{"install", "istiod", chart("istiod"), "-n", "istio-system", "--create-namespace"}, arguments(values)...)...)
	h.run(t, "install", "istio-ingressgateway", chart("gateway"), "-n", "istio-ingress", "--create-namespace")
	deployment := deploymentOf(t, h.run(t, append([]string{"template", "istiod", chart("istiod"), "-n", "istio-system"}, arguments(values)...)...))
	awaitPermissions(t, c)
	roles := c.Client(t).RbacV1().ClusterRoles()
	full, err := roles.Get(t.Context(), "istiod-clusterrole-istio-system", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list := atStart(full.Rules)
	list = list[:min(len(list), scorecard.BySize(4, len(list), len(list)))]
	check := scorecard.Check(t, 42, scorecard.Size("permissions dropped", len(list)))
	noticed := 0
	for i, g := range list {
		role, err := roles.Get(t.Context(), full.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		role.Rules = without(full.Rules, g)
		if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		p := startControlPlane(t, c, deployment, fmt.Sprintf("istiod-dropped-%d", i))
		if err := isNoticed(t, p, log, g); err != nil {
			t.Errorf("without %s: %v", g, err)
		} else {
			noticed++
		}
		if err := p.stop(); err != nil {
			t.Errorf("without %s the control plane ended: %v", g, err)
		}
	}
	check.Measured("permissions whose absence was noticed", noticed)
}

// isNoticed waits until the API server has denied a request that needs the permission, and the
// control plane's log names the resource.
func isNoticed(t *testing.T, p ports, audit string, g grant) error {
	t.Helper()
	var refused, named bool
	for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		refused = refused || slices.ContainsFunc(requestsOf(t, audit, account), func(r request) bool {
			return !r.allowed() && r.Object.Resource == g.resource && r.Object.Group == g.group && (r.Verb == g.verb || r.Verb == "list")
		})
		text, err := os.ReadFile(p.log)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			named = named || strings.Contains(line, g.resource) && (strings.Contains(line, "forbidden") || strings.Contains(line, "cannot"))
		}
		if refused && named {
			return nil
		}
	}
	return fmt.Errorf("refused by the API server: %v, named in the log: %v", refused, named)
}
