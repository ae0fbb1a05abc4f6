package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/samples/bookinfo/screen"
)

// keep tells how to use the mesh from other terminals and waits for the end.
// binaries is the directory of pilotctl.
func keep(ctx context.Context, stop func(), scr *screen.Screen, m *mesh.Mesh, dir, binaries string) error {
	d, err := openDoor(dir, m.Network, stop)
	if err != nil {
		return err
	}
	defer d.close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	scr.Line(screen.Plain, "")
	scr.Line(screen.Bold, "The mesh stays up. From another terminal:")
	binaries, err = filepath.Abs(binaries)
	if err != nil {
		return err
	}
	pilotctl := func(command string) string {
		return filepath.Join(binaries, "pilotctl") + " " + command + " --server 127.0.0.1:15014"
	}
	in := func(pod, command string) string { return self + " exec --dir " + dir + " " + pod + " -- " + command }
	for _, use := range []struct{ what, command string }{
		{"call it", in("client", "curl -s http://productpage:9080/api/v1/products/0/reviews")},
		{"call it as jason", in("client", "curl -s -H 'end-user: jason' http://productpage:9080/api/v1/products/0/reviews")},
		{"change a rule", "edit or add files in " + dir + "/config/networking"},
		{"has it arrived?", in("istiod", pilotctl("wait virtualservice/reviews"))},
		{"why does it go there?", in("istiod", pilotctl("explain client.default http://reviews:9080/reviews/0"))},
		{"what is wrong?", in("istiod", pilotctl("problems"))},
		{"what each proxy has", in("istiod", pilotctl("proxy-status"))},
		{"all debug endpoints", in("istiod", "curl -s http://127.0.0.1:15014/debug")},
		{"what a proxy was sent", in("istiod", "curl -s 'http://127.0.0.1:15014/debug/config_dump?proxyID=client.default'")},
		{"an Envoy's own admin", in("client", "curl -s http://127.0.0.1:15000/config_dump")},
		{"the rules of capture", in("client", "nft list ruleset")},
		{"logs", "ls " + dir + "/*/*.log"},
		{"end it", "Ctrl-C here, or " + self + " stop --dir " + dir},
	} {
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
