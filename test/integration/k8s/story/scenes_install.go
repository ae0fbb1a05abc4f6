package story

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/test/support/cluster/mesh"
	"github.com/meshpilot/meshpilot/test/support/document"
)

// installDocument is the document whose commands PlayGatewayAPI runs.
const installDocument = "docs/install/kubernetes.md"

// The sections of installDocument whose commands are run.
const (
	installSection = "Install"
	injectSection  = "Inject sidecars"
	gatewaySection = "A gateway"
	removeSection  = "Remove"
)

// PlayGatewayAPI plays the scenes of the Gateway API on a cluster without meshpilot, which the
// commands of docs/install/kubernetes.md install, and at last remove. It fails as Play does.
func (s *Stage) PlayGatewayAPI(ctx context.Context) error {
	commands, err := s.readCommands(installDocument)
	if err != nil {
		return err
	}
	sh, err := mesh.NewShell(ctx, s.cluster.Programs(), s.cluster.Kubeconfig(), nil)
	if err != nil {
		return err
	}
	defer sh.Close()
	run := func(title string) func(context.Context, *Stage) error {
		// NewShell has done what make charts does.
		text := strings.Replace(commands[title], "make charts\n", "", 1)
		return func(ctx context.Context, _ *Stage) error { return sh.Run(ctx, text) }
	}
	return s.playAll(ctx, slices.Concat([]scene{
		{title: "The charts are installed", play: run(installSection)},
		{title: "Bookinfo is there, without sidecars", play: func(ctx context.Context, s *Stage) error {
			return s.applyBookinfo(ctx)
		}},
		{title: "A namespace is labelled, and Bookinfo's pods get sidecars", play: func(ctx context.Context, s *Stage) error {
			if err := run(injectSection)(ctx, s); err != nil {
				return err
			}
			return s.expectSidecars(ctx)
		}},
		{title: "An ingress gateway is installed", play: func(ctx context.Context, s *Stage) error {
			if err := run(gatewaySection)(ctx, s); err != nil {
				return err
			}
			return s.findGateway(ctx, "istio-ingress")
		}},
		{title: "A VirtualService sends all reviews to v3", play: playAllV3},
	}, gatewayAPIScenes(), []scene{
		{title: "The charts are removed", play: func(ctx context.Context, s *Stage) error {
			if err := run(removeSection)(ctx, s); err != nil {
				return err
			}
			left, err := s.runKubectl(ctx, "get", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "-o", "name")
			s.reportVerdict(err == nil && strings.TrimSpace(left) == "", "webhooks that are left", "none", fmt.Sprint(left, err))
			return nil
		}},
	}))
}

// readCommands returns the commands of each section of a document, by the section's title.
func (s *Stage) readCommands(path string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(s.root, path))
	if err != nil {
		return nil, err
	}
	commands := map[string]string{}
	for _, section := range document.ParseSections(string(text)) {
		commands[section.Title] = section.Commands
	}
	return commands, nil
}
