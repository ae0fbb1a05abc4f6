package mesh

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/meshpilot/meshpilot/test/support/cluster/image"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// BuildImages builds the programs of the images of meshpilot and Bookinfo, and returns the images by the
// names that charts and manifests use: Istio's names, of any registry and tag. Envoy must be there
// (`make envoy`).
func BuildImages(ctx context.Context) (image.Map, error) {
	envoyPath, err := envoy.FindBinary()
	if err != nil {
		return nil, err
	}
	const bin = "/usr/local/bin/"
	built := map[string]string{bin + "envoy": envoyPath}
	for _, pkg := range []string{"cmd/pilot-discovery", "cmd/pilot-agent", "cmd/pilotctl", "samples/bookinfo/app"} {
		path, err := program.Build(ctx, pkg)
		if err != nil {
			return nil, err
		}
		built[bin+filepath.Base(path)] = path
	}
	files := func(names ...string) map[string]string {
		some := map[string]string{}
		for _, name := range names {
			some[bin+name] = built[bin+name]
		}
		return some
	}
	images := image.Map{
		{
			Match:      "pilot:*",
			Entrypoint: []string{bin + "pilot-discovery"},
			Files:      files("pilot-discovery", "pilotctl"),
			User:       image.ProxyUser,
		},
		{
			Match:      "proxyv2:*",
			Entrypoint: []string{bin + "pilot-agent"},
			Files:      files("pilot-agent", "envoy"),
			User:       image.ProxyUser,
		},
	}
	for _, service := range []string{"productpage", "details", "ratings"} {
		images = append(images, bookinfoImage(service, "v1", files("bookinfo")))
	}
	for _, version := range []string{"v1", "v2", "v3"} {
		images = append(images, bookinfoImage("reviews", version, files("bookinfo")))
	}
	return images, nil
}

// bookinfoImage is the image of one of Bookinfo's services: ours, under the name of Istio's. It
// ends at once on SIGTERM, when its callers do not know about it yet.
func bookinfoImage(service, version string, files map[string]string) image.Image {
	return image.Image{
		Match:      fmt.Sprintf("examples-bookinfo-%s-%s:*", service, version),
		Entrypoint: []string{"/usr/local/bin/bookinfo", service, "--version=" + version},
		Files:      files,
	}
}
