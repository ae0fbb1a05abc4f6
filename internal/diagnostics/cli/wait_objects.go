package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
	"github.com/meshpilot/meshpilot/internal/kube/served"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// awaited is a version of an object to wait for.
type awaited struct {
	key        config.Key
	generation int64  // the lowest one; 0 for any
	hash       string // of the content; "" for any
}

// objects returns the objects of the arguments, then of the files, with duplicates. It leaves out
// objects of the files whose kinds the control plane only converts or does not read. It returns an
// error if no object is named or remains, an argument is malformed, or a file is invalid.
func (w *waiting) objects(c *cobra.Command, args []string) ([]awaited, error) {
	var list []awaited
	for _, text := range args {
		k, err := parseObject(text, w.namespace)
		if err != nil {
			return nil, err
		}
		list = append(list, awaited{key: k, generation: w.generation})
	}
	if len(w.files) == 0 && len(list) == 0 {
		return nil, errors.New("name objects as KIND/NAME, or a file with --filename")
	}
	files, err := offline.ReadFiles(w.files, c.InOrStdin())
	if err != nil {
		return nil, fmt.Errorf("--filename: %w", err)
	}
	for _, f := range files {
		inFile, err := w.objectsOf(f)
		if err != nil {
			return nil, err
		}
		list = append(list, inFile...)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: no object that the control plane keeps", strings.Join(w.files, ", "))
	}
	return list, nil
}

// objectsOf returns the objects of a file, without objects of kinds that the control plane only
// converts or does not read. It returns an error if one is invalid. With access to an API server,
// objects in "default" are taken to be in --namespace. Without, the hash of the content identifies
// the version, except with --deleted.
func (w *waiting) objectsOf(f offline.File) ([]awaited, error) {
	var list []awaited
	for _, d := range decode.Manifest(f.Name, f.Text) {
		switch {
		case d.Config != nil && !snapshot.Keeps(d.Key.Kind): // like Services, which are converted
		case d.Config != nil:
			o := awaited{key: d.Key}
			// kubectl refuses -n with another namespace than that of the manifest, so "default" is the
			// namespace of an object without one.
			if w.readsAPIServer() && w.namespace != "" && o.key.Namespace == defaultNamespace {
				o.key.Namespace = w.namespace
			}
			if !w.readsAPIServer() && !w.deleted {
				o.hash = fmt.Sprintf("%x", d.Config.Hash)
			}
			list = append(list, o)
		case !d.Foreign:
			return nil, fmt.Errorf("%s: %v", f.Name, d.Problems)
		}
	}
	return list, nil
}

// readsAPIServer reports whether the newest version of objects is the one in the API server: if
// --kubeconfig is set, or the control plane is reached through a kubeconfig.
func (w *waiting) readsAPIServer() bool { return w.Kubeconfig != "" || w.options().UsesKubernetes() }

// readGenerations raises the generations of objects to those in the API server. It does nothing
// with --deleted, or if no kubeconfig is used. It returns an error for an object that does not
// exist there.
func (w *waiting) readGenerations(ctx context.Context, objects []awaited) error {
	if !w.readsAPIServer() || w.deleted {
		return nil
	}
	client, err := w.options().Client()
	if err != nil {
		return err
	}
	defer client.HTTP.CloseIdleConnections()
	versions := served.New(client.Kubernetes, nil)
	for i := range objects {
		o := &objects[i]
		resource, err := versions.Resource(ctx, o.key.Kind)
		if err != nil {
			return fmt.Errorf("read %s from the API server: %w", o.key, err)
		}
		stored, err := client.Dynamic.Resource(resource).Namespace(o.key.Namespace).Get(ctx, o.key.Name,
			metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read %s from the API server: %w", o.key, err)
		}
		o.generation = max(o.generation, stored.GetGeneration())
	}
	return nil
}
