package story

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"istio.io/api/annotation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/test/support/cluster/mesh"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// earlierCharts is the last commit before the charts had schemas (ADR 47). It is used while there
// is no tag. Its values, names of objects and gateway pods differ from those of today.
const earlierCharts = "b1c5c3f9"

// upgradeDocument is the document whose commands PlayUpgrade and PlayMove run.
const upgradeDocument = "docs/UPGRADE.md"

// documented is a section of upgradeDocument, and the revision of the pods of each namespace after
// its commands. No call may fail meanwhile.
type documented struct {
	title     string
	revisions map[string]string
}

// upgradeSections are the sections for upgrades, in their order.
func upgradeSections() []documented {
	return []documented{
		{"Upgrade in place", revisionsOf("default", "default", "default")},
		{"Roll back in place", revisionsOf("default", "default", "default")},
		{"Start a second revision", revisionsOf("default", "default", "next")},
		{"Return to the first revision", revisionsOf("default", "default", "default")},
		{"Finish with the second revision", revisionsOf("next", "next", "next")},
	}
}

// moveSections are the sections for a cluster with istiod, in their order.
func moveSections() []documented {
	return []documented{
		{"Move from istiod", revisionsOf("default", "default", "meshpilot")},
		{"Return a namespace to istiod", revisionsOf("default", "default", "default")},
		{"Remove istiod", revisionsOf("meshpilot", "meshpilot", "meshpilot")},
	}
}

func revisionsOf(gateway, frontend, backend string) map[string]string {
	return map[string]string{"istio-ingress": gateway, "frontend": frontend, "backend": backend}
}

// installEarlier installs the charts in the folder earlier, with an annotation that those of today
// do not have: the pods are replaced by an upgrade also if the charts are the same.
const installEarlier = `
helm install istio-base earlier/base -n istio-system --create-namespace
helm install istiod earlier/istiod -n istio-system --set podAnnotations.version=earlier --wait --timeout 2m
helm install istio-ingressgateway earlier/gateway -n istio-ingress --create-namespace --set podAnnotations.version=earlier --wait --timeout 2m
` + installShop

// installShop installs the applications, and writes the values that the document refers to.
const installShop = `
kubectl apply -f testdata/shop.yaml
kubectl rollout status deployment -n backend --timeout=2m
kubectl rollout status deployment -n frontend --timeout=2m
echo '{}' > istiod.yaml
echo '{}' > gateway.yaml
`

// PlayUpgrade runs the commands of docs/UPGRADE.md on a cluster with the charts of the release before
// this one: an upgrade in place, a rollback, and an upgrade with a second revision. It fails as Play
// does.
func (s *Stage) PlayUpgrade(ctx context.Context) error {
	earlier, err := os.MkdirTemp("", "charts")
	if err != nil {
		return err
	}
	defer os.RemoveAll(earlier)
	charts := filepath.Join(earlier, "manifests", "charts")
	version, err := program.UnpackPrevious(ctx, earlierCharts, earlier, "manifests/charts")
	if err != nil {
		s.audience.Say("the charts of today stand for earlier ones: %v", err)
		charts = filepath.Join(s.root, "manifests", "charts")
	} else {
		s.audience.Say("the earlier charts are those of %s", version)
	}
	return s.playDocument(ctx, map[string]string{"earlier": charts}, installEarlier, upgradeSections())
}

// installIstio installs Istio's own charts. The settings keep out the filters that only Istio's
// build of Envoy has.
const installIstio = `
helm install istio-base istio/base -n istio-system --create-namespace
helm install istiod istio/istio-control/istio-discovery -n istio-system --wait --timeout 2m --set global.hub=istio,global.tag=1.31.0 \
  --set-string env.PILOT_ENABLE_METADATA_EXCHANGE=false,env.PILOT_ENABLE_ALPN_FILTER=false
kubectl apply -f testdata/upstream-envoy.yaml
helm install istio-ingressgateway istio/gateway -n istio-ingress --create-namespace --wait --timeout 2m
` + installShop + gracefulShop

// gracefulShop keeps applications running for a while when their pods end. Callers that istiod
// configures send them requests for that long.
const gracefulShop = `
for d in frontend/productpage backend/reviews backend/ratings; do
  kubectl patch deployment ${d#*/} -n ${d%/*} -p '{"spec": {"template": {"spec": {"containers": [{"name": "'${d#*/}'", "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}]}}}}'
done
kubectl rollout status deployment -n backend --timeout=2m
kubectl rollout status deployment -n frontend --timeout=2m
`

// PlayMove runs the commands of docs/UPGRADE.md on a cluster with istiod, which Istio's own charts in
// a folder install: namespaces move to meshpilot one at a time. It fails as Play does.
func (s *Stage) PlayMove(ctx context.Context, istioCharts string) error {
	return s.playDocument(ctx, map[string]string{"istio": istioCharts}, installIstio, moveSections())
}

// playDocument prepares the cluster with the commands of prepare, and plays a scene for each
// section, with calls through the gateway.
func (s *Stage) playDocument(
	ctx context.Context,
	links map[string]string,
	prepare string,
	sections []documented,
) error {
	commands, err := s.readCommands(upgradeDocument)
	if err != nil {
		return err
	}
	links["testdata"] = filepath.Join(s.root, "test", "integration", "k8s", "story", "testdata")
	if charts := links["earlier"]; charts != "" {
		if err := mesh.WriteCRDs(ctx, charts); err != nil {
			return err
		}
	}
	sh, err := mesh.NewShell(ctx, s.cluster.Programs(), s.cluster.Kubeconfig(), links)
	if err != nil {
		return err
	}
	defer sh.Close()
	all := []scene{{title: "Helm installs a mesh, and applications", play: func(ctx context.Context, s *Stage) error {
		if err := sh.Run(ctx, prepare); err != nil {
			return err
		}
		return s.awaitShop(ctx)
	}}}
	for _, d := range sections {
		if commands[d.title] == "" {
			return fmt.Errorf("%s has no section %q with commands", upgradeDocument, d.title)
		}
		all = append(all, scene{title: d.title, load: true, play: func(ctx context.Context, s *Stage) error {
			if err := sh.Run(ctx, commands[d.title]); err != nil {
				return err
			}
			return s.expectRevisions(ctx, d.revisions)
		}})
	}
	all = append(all, scene{title: "An invalid rule is refused", play: playMistake})
	return s.playAll(ctx, all)
}

// awaitShop waits until the gateway has an address, and calls through it are answered.
func (s *Stage) awaitShop(ctx context.Context) error {
	if err := s.findGateway(ctx, "istio-ingress"); err != nil {
		return err
	}
	return awaitCondition(ctx, "an answer through the gateway", func(ctx context.Context) error {
		_, err := s.reviewsVersion(ctx)
		return err
	})
}

// expectRevisions compares the revisions that injected the pods of namespaces with expected ones. It
// waits until pods that are being deleted are gone.
func (s *Stage) expectRevisions(ctx context.Context, want map[string]string) error {
	for namespace, revision := range want {
		var seen []string
		err := awaitCondition(ctx, "pods of "+namespace, func(ctx context.Context) (err error) {
			seen, err = s.podRevisions(ctx, namespace)
			return err
		})
		if err != nil {
			return err
		}
		odd := 0
		for _, r := range seen {
			if r != revision {
				odd++
			}
		}
		s.reportVerdict(odd == 0 && len(seen) > 0, "revision of the pods in "+namespace, revision, strings.Join(seen, ", "))
	}
	return nil
}

// podRevisions returns the revision that injected each pod of a namespace. It returns an error while
// a pod is being deleted.
func (s *Stage) podRevisions(ctx context.Context, namespace string) ([]string, error) {
	pods, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var list []string
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.DeletionTimestamp != nil {
			return nil, fmt.Errorf("pod %s is being deleted", p.Name)
		}
		var status struct {
			Revision string `json:"revision"`
		}
		if err := json.Unmarshal([]byte(p.Annotations[annotation.SidecarStatus.Name]), &status); err != nil {
			return nil, fmt.Errorf("pod %s: annotation %s: %w", p.Name, annotation.SidecarStatus.Name, err)
		}
		list = append(list, status.Revision)
	}
	return list, nil
}
