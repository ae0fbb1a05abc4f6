package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/samples/bookinfo"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/samples/bookinfo/screen"
)

// keep tells how to use the mesh from other terminals and waits for the end.
func keep(ctx context.Context, scr *screen.Screen, m *mesh.Mesh, dir string, opts options) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	scr.Line(screen.Plain, "")
	scr.Line(screen.Bold, "The mesh stays up. From another terminal:")
	binaries, err := filepath.Abs(opts.binaries)
	if err != nil {
		return err
	}
	pilotctl := func(command string) string {
		return filepath.Join(binaries, "pilotctl") + " " + command + " --server 127.0.0.1:15014"
	}
	in := func(pod, command string) string { return self + " exec --dir " + dir + " " + pod + " -- " + command }
	if opts.console == "" {
		opts.console = self + " console --dir " + dir
	}
	for _, use := range uses(m, dir, self, opts.console, pilotctl, in) {
		scr.Line(screen.Plain, "  %-22s %s", use.what, use.command)
	}
	scr.Line(screen.Dim, "  pods:")
	for _, w := range m.Workloads {
		scr.Line(screen.Dim, "    %-16s %s", w.Pod.Name, w.Pod.Status.PodIP)
	}
	scr.Line(screen.Dim, "    %-16s %s", m.ControlPlane.Node.Name(), m.ControlPlane.Node.Addr())
	<-ctx.Done()
	return nil
}

// applyLastRule applies the rule that sends Jason to the version with stars, so that a user who looks
// around finds something to understand. It does nothing in the story of Consul.
func (s *stage) applyLastRule() error {
	if s.mesh.Consul != nil {
		return nil
	}
	s.screen.Line(screen.Plain, "")
	s.screen.Line(screen.Bold, "The rule that stays: Jason's requests for reviews go to v2, which has stars, all others to v1.")
	return s.apply("virtual-service-reviews-test-v2")
}

// explainJason is the address, below that of the console, that explains the call of productpage for
// Jason.
const explainJason = "explain?proxy=productpage-v1.default&url=http%3A%2F%2Freviews%3A9080%2Freviews%2F0&header=end-user%3A+jason"

// use is a command that is shown to the user, with its purpose.
type use struct{ what, command string }

// uses returns the commands that a user may try. console is the address of the web console, or the
// command that serves it. pilotctl and in complete commands of pilotctl and commands that run in a
// pod.
func uses(
	m *mesh.Mesh,
	dir, self, console string,
	pilotctl func(string) string,
	in func(pod, command string) string,
) []use {
	url := func(url string) string { return url }
	if m.Consul != nil {
		url = mesh.ConsulURL
	}
	list := []use{
		{"open the console", console},
		{"call it", in("client", "curl -s "+url(mesh.ProductReviews))},
		{"call it as jason", in("client", "curl -s -H 'end-user: jason' "+url(mesh.ProductReviews))},
		{"change a rule", "edit or add files in " + dir + "/config/networking"},
		{"has it arrived?", in("istiod", pilotctl("wait virtualservice/reviews"))},
		{"why does it go there?", in("istiod", pilotctl("explain client.default "+url(mesh.Reviews)))},
		{"what is wrong?", in("istiod", pilotctl("problems"))},
		{"what each proxy has", in("istiod", pilotctl("proxy-status"))},
		{"all debug endpoints", in("istiod", "curl -s http://127.0.0.1:15014/debug")},
		{"what a proxy was sent", in("istiod", "curl -s 'http://127.0.0.1:15014/debug/config_dump?proxyID=client.default'")},
		{"an Envoy's own admin", in("client", "curl -s http://127.0.0.1:15000/config_dump")},
		{"the rules of capture", in("client", "nft list ruleset")},
		{"logs", "ls " + dir + "/*/*.log"},
		{"end it", "Ctrl-C here, or " + self + " stop --dir " + dir},
	}
	if m.Consul == nil {
		rule := filepath.Join(dir, "samples", "bookinfo", bookinfo.RulePath(previewedRule)) // the story has placed it
		list = slices.Insert(list, 3, use{"what would a rule do?", in("istiod", pilotctl("diff -f "+rule))})
		if strings.HasPrefix(console, "http") {
			server := strings.TrimSuffix(strings.TrimPrefix(console, "http://"), "/ui/")
			program := filepath.Join(filepath.Dir(self), "pilotctl")
			return slices.Insert(list, 1, use{"why jason has stars", console + explainJason},
				use{"its commands, copied", "alias pilotctl='" + program + " --server " + server + "'"})
		}
		return list
	}
	consul := func(command string) string { return in(m.Consul.Agent.Name(), command) }
	const agent = "http://127.0.0.1:8500/v1/agent/service/"
	return append([]use{
		{"what Consul has", consul("curl -s 'http://127.0.0.1:8500/v1/health/service/reviews?passing=true'")},
		{"deregister a version", consul("curl -s -X PUT " + agent + "deregister/reviews-v2")},
		{"put it on maintenance", consul("curl -s -X PUT '" + agent + "maintenance/reviews-v3?enable=true'")},
		{"fail a health check", "touch " + dir + "/reviews-v1/unhealthy"},
	}, list...)
}
