package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"slices"
	"testing"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"

	"github.com/meshpilot/meshpilot/test/support/program"
)

// crdFiles returns the files and directories of the kinds to install.
func crdFiles(ctx context.Context, o Options) ([]string, error) {
	root, err := program.Root()
	if err != nil {
		return nil, err
	}
	files := o.CRDs
	if o.IstioKinds {
		dir, err := program.Module{Dir: root}.SourceOf(ctx, "istio.io/api")
		if err != nil {
			return nil, err
		}
		files = append(files, filepath.Join(dir, "kubernetes", "customresourcedefinitions.gen.yaml"))
	}
	if o.GatewayAPI != Without {
		dir, err := program.Module{Dir: root}.SourceOf(ctx, "sigs.k8s.io/gateway-api")
		if err != nil {
			return nil, err
		}
		files = append(files, filepath.Join(dir, "config", "crd", string(o.GatewayAPI)))
	}
	if o.InferenceKinds {
		dir, err := program.Module{Dir: root}.SourceOf(ctx, "sigs.k8s.io/gateway-api-inference-extension")
		if err != nil {
			return nil, err
		}
		files = append(files, filepath.Join(dir, "config", "crd", "bases"))
	}
	return files, nil
}

// InstallCRDs creates the CustomResourceDefinitions of files and directories, and waits until they
// are served. Existing ones are unchanged.
func (c *Cluster) InstallCRDs(ctx context.Context, paths ...string) error {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, path := range paths {
		some, err := readCRDs(path)
		if err != nil {
			return fmt.Errorf("read kinds: %w", err)
		}
		crds = append(crds, some...)
	}
	if len(crds) == 0 {
		return nil
	}
	client, err := apiextensions.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	finder, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		return err
	}
	defs := client.CustomResourceDefinitions()
	group, gctx := errgroup.WithContext(ctx)
	wanted := map[string]bool{}
	for _, crd := range crds {
		wanted[crd.Name] = true
		group.Go(func() error {
			_, err := defs.Create(gctx, crd, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("install kind %s: %w", crd.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return awaitCondition(ctx, "kinds to be served", nil, func(ctx context.Context) error {
		list, err := defs.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		established := 0
		for i := range list.Items {
			if wanted[list.Items[i].Name] && isEstablished(&list.Items[i]) {
				established++
			}
		}
		if established < len(wanted) {
			return fmt.Errorf("%d of %d are established", established, len(wanted))
		}
		return checkDiscovery(finder, crds)
	})
}

// StopServing removes a version of a definition, such as "sidecars.networking.istio.io", as if the
// kinds of an older release were installed, and waits until discovery lacks it.
func (c *Cluster) StopServing(t testing.TB, definition, version string) {
	t.Helper()
	client, err := apiextensions.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	crd, err := client.CustomResourceDefinitions().Get(t.Context(), definition, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		v.Served = v.Served && v.Name != version
	}
	if _, err := client.CustomResourceDefinitions().Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	finder, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	err = awaitCondition(t.Context(), "the version to disappear", nil, func(context.Context) error {
		list, err := finder.ServerResourcesForGroupVersion(crd.Spec.Group + "/" + version)
		if err != nil {
			return err
		}
		isServed := func(r metav1.APIResource) bool { return r.Name == crd.Spec.Names.Plural }
		if slices.ContainsFunc(list.APIResources, isServed) {
			return fmt.Errorf("%s is served in %s", definition, version)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkDiscovery returns an error if the API server's discovery lacks a served version of a kind.
// Discovery follows a kind's condition Established with a delay, and Apply finds kinds by it.
func checkDiscovery(
	finder discovery.ServerResourcesInterface,
	crds []*apiextensionsv1.CustomResourceDefinition,
) error {
	plurals := map[string]map[string]bool{} // by group/version
	for _, crd := range crds {
		for _, version := range crd.Spec.Versions {
			name := schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name}.String()
			if !version.Served {
				continue
			}
			if plurals[name] == nil {
				list, err := finder.ServerResourcesForGroupVersion(name)
				if err != nil {
					return fmt.Errorf("discovery of %s: %w", name, err)
				}
				plurals[name] = map[string]bool{}
				for i := range list.APIResources {
					plurals[name][list.APIResources[i].Name] = true
				}
			}
			if !plurals[name][crd.Spec.Names.Plural] {
				return fmt.Errorf("discovery of %s lacks %s", name, crd.Spec.Names.Plural)
			}
		}
	}
	return nil
}

func isEstablished(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// readCRDs reads the CustomResourceDefinitions of a file, or of all YAML files below a directory.
func readCRDs(path string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var crds []*apiextensionsv1.CustomResourceDefinition
	err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".yaml") {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := decoder.Decode(crd); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if crd.Kind == "CustomResourceDefinition" {
				crds = append(crds, crd)
			}
		}
	})
	return crds, err
}
