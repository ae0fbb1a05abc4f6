package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// volumeDir returns the directory of a volume on this machine.
func (p *pod) volumeDir(v *corev1.Volume) string {
	if v.HostPath != nil {
		return v.HostPath.Path
	}
	return filepath.Join(p.dir, "volumes", v.Name)
}

// writeVolumes writes the current content of all volumes.
func (p *pod) writeVolumes(ctx context.Context) error {
	object := p.currentObject()
	for i := range object.Spec.Volumes {
		v := &object.Spec.Volumes[i]
		if err := p.writeVolume(ctx, object, v); err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
	}
	return nil
}

func (p *pod) writeVolume(ctx context.Context, object *corev1.Pod, v *corev1.Volume) error {
	dir := p.volumeDir(v)
	switch {
	case v.HostPath != nil:
		return prepareHostPath(v.HostPath)
	case v.EmptyDir != nil:
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		return os.Chmod(dir, 0o777)
	}
	files, err := p.volumeFiles(ctx, object, v)
	if err != nil {
		return err
	}
	if c := object.Spec.SecurityContext; c != nil && c.FSGroup != nil {
		files.giveTo(int(*c.FSGroup))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return files.replaceIn(dir)
}

// prepareHostPath creates the file or directory if the type requires it. Only directories are:
// nothing here wants more.
func prepareHostPath(v *corev1.HostPathVolumeSource) error {
	if v.Type != nil && *v.Type == corev1.HostPathDirectoryOrCreate {
		return os.MkdirAll(v.Path, 0o755)
	}
	_, err := os.Stat(v.Path)
	return err
}

// volumeFiles returns the files of a volume.
func (p *pod) volumeFiles(ctx context.Context, object *corev1.Pod, v *corev1.Volume) (files, error) {
	out := files{}
	switch {
	case v.ConfigMap != nil:
		data, err := p.configMap(ctx, v.ConfigMap.Name, v.ConfigMap.Optional)
		out.addItems(data, v.ConfigMap.Items, v.ConfigMap.DefaultMode)
		return out, err
	case v.Secret != nil:
		data, err := p.secretData(ctx, v.Secret.SecretName, v.Secret.Optional)
		out.addItems(data, v.Secret.Items, v.Secret.DefaultMode)
		return out, err
	case v.DownwardAPI != nil:
		return out, p.addFields(out, object, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if err := p.addSource(ctx, out, object, v, &v.Projected.Sources[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, errors.New("its kind is not known here")
}

// addSource adds one source of a projected volume.
func (p *pod) addSource(
	ctx context.Context,
	out files,
	object *corev1.Pod,
	v *corev1.Volume,
	s *corev1.VolumeProjection,
) error {
	mode := v.Projected.DefaultMode
	switch {
	case s.ServiceAccountToken != nil:
		token, err := p.tokens.tokenFor(ctx, p, v.Name, s.ServiceAccountToken)
		out.addFile(s.ServiceAccountToken.Path, token, mode)
		return err
	case s.ConfigMap != nil:
		data, err := p.configMap(ctx, s.ConfigMap.Name, s.ConfigMap.Optional)
		out.addItems(data, s.ConfigMap.Items, mode)
		return err
	case s.Secret != nil:
		data, err := p.secretData(ctx, s.Secret.Name, s.Secret.Optional)
		out.addItems(data, s.Secret.Items, mode)
		return err
	case s.DownwardAPI != nil:
		return p.addFields(out, object, s.DownwardAPI.Items, mode)
	}
	return errors.New("the kind of a source is not known here")
}

func (p *pod) addFields(out files, object *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode *int32) error {
	for _, item := range items {
		var text string
		var err error
		if item.FieldRef != nil {
			text, err = p.fieldValue(object, item.FieldRef.FieldPath)
		} else if item.ResourceFieldRef != nil {
			text, err = resourceField(object, nil, item.ResourceFieldRef)
		}
		if err != nil {
			return err
		}
		if item.Mode != nil {
			mode = item.Mode
		}
		out.addFile(item.Path, text, mode)
	}
	return nil
}

// configMap returns the content of a ConfigMap of the Pod's namespace; nothing when it is optional
// and not there.
func (p *pod) configMap(ctx context.Context, name string, optional *bool) (map[string]string, error) {
	cm, err := p.k.client.CoreV1().ConfigMaps(p.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && isTrue(optional) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data := toTexts(cm.BinaryData)
	maps.Copy(data, cm.Data)
	return data, nil
}

// secretData is configMap for a Secret.
func (p *pod) secretData(ctx context.Context, name string, optional *bool) (map[string]string, error) {
	s, err := p.k.client.CoreV1().Secrets(p.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && isTrue(optional) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return toTexts(s.Data), nil
}

func toTexts(data map[string][]byte) map[string]string {
	out := map[string]string{}
	for k, v := range data {
		out[k] = string(v)
	}
	return out
}
