package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/test/support/cluster/image"
)

// prepareSpec computes the specification of the container's first process.
func (c *container) prepareSpec(ctx context.Context) (*initSpec, error) {
	object := c.pod.currentObject()
	im, err := c.pod.k.Images.Find(c.spec.Image)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errImage, err)
	}
	env, err := c.buildEnvironment(ctx, object, im)
	if err != nil {
		return nil, err
	}
	s := &initSpec{
		Network: c.pod.network.namespace != nil, Hostname: c.pod.hostName(), Dir: c.workingDir(im), Env: env.toList(),
		Layer: c.pod.k.filePath("layers", fmt.Sprintf("%s-%s-%d", c.pod.uid, c.spec.Name, c.restarts)),
	}
	if err := s.setUser(object, c.spec, im); err != nil {
		return nil, err
	}
	if s.Args = c.commandLine(im, env); len(s.Args) == 0 {
		return nil, fmt.Errorf("%w: image %q has no command", errImage, c.spec.Image)
	}
	for target, source := range im.Files {
		s.Mounts = append(s.Mounts, mount{Source: resolveLinks(source), Target: target, ReadOnly: true})
	}
	if s.Network {
		for _, file := range []string{"hosts", "resolv.conf"} {
			s.Mounts = append(s.Mounts, mount{Source: filepath.Join(c.pod.dir, file), Target: "/etc/" + file})
		}
	}
	for i := range c.spec.VolumeMounts {
		m, err := c.mountOf(object, &c.spec.VolumeMounts[i], env)
		if err != nil {
			return nil, err
		}
		s.Mounts = append(s.Mounts, m)
	}
	// Outer mounts are made before inner ones.
	slices.SortStableFunc(s.Mounts, func(a, b mount) int { return len(a.Target) - len(b.Target) })
	return s, nil
}

func (c *container) workingDir(im *image.Image) string {
	for _, dir := range []string{c.spec.WorkingDir, im.WorkingDir} {
		if dir != "" {
			return dir
		}
	}
	return "/"
}

// commandLine are the image's entrypoint and args, each replaced by the container's: a command
// replaces both.
func (c *container) commandLine(im *image.Image, env variables) []string {
	command, args := im.Entrypoint, im.Args
	if len(c.spec.Command) > 0 {
		command, args = c.spec.Command, nil
	}
	if len(c.spec.Args) > 0 {
		args = c.spec.Args
	}
	var all []string
	for _, a := range slices.Concat(command, args) {
		all = append(all, env.expandReferences(a))
	}
	return all
}

// setUser takes user and groups from the container's security context, the Pod's, or the image. It
// refuses the proxy's user for images of other programs: capture would leave their traffic alone, and
// a test of it would pass without a proxy.
func (s *initSpec) setUser(object *corev1.Pod, c *corev1.Container, im *image.Image) error {
	s.UID = cmp.Or(int(im.User), image.ApplicationUser)
	s.GID = s.UID
	set := func(user, group *int64) {
		if user != nil {
			s.UID = int(*user)
			s.GID = 0 // as a container engine does that finds no group for the user
		}
		if group != nil {
			s.GID = int(*group)
		}
	}
	if ctx := object.Spec.SecurityContext; ctx != nil {
		set(ctx.RunAsUser, ctx.RunAsGroup)
		for _, g := range ctx.SupplementalGroups {
			s.Groups = append(s.Groups, int(g))
		}
		if ctx.FSGroup != nil {
			s.Groups = append(s.Groups, int(*ctx.FSGroup))
		}
	}
	if ctx := c.SecurityContext; ctx != nil {
		set(ctx.RunAsUser, ctx.RunAsGroup)
		s.ReadOnly = ctx.ReadOnlyRootFilesystem != nil && *ctx.ReadOnlyRootFilesystem
	}
	if s.UID == image.ProxyUser && im.User != image.ProxyUser {
		return fmt.Errorf("container %s runs as user %d, which is the proxy's", c.Name, s.UID)
	}
	return nil
}

// mountOf returns the source and the target of a volume mount.
func (c *container) mountOf(object *corev1.Pod, m *corev1.VolumeMount, env variables) (mount, error) {
	i := slices.IndexFunc(object.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
	if i < 0 {
		return mount{}, fmt.Errorf("mount %s: no such volume", m.Name)
	}
	sub := m.SubPath
	if m.SubPathExpr != "" {
		sub = env.expandReferences(m.SubPathExpr)
	}
	volume := &object.Spec.Volumes[i]
	source := filepath.Join(c.pod.volumeDir(volume), sub)
	if _, err := os.Stat(source); os.IsNotExist(err) && sub != "" && volume.EmptyDir != nil {
		if err := os.MkdirAll(source, 0o777); err != nil {
			return mount{}, fmt.Errorf("mount %s: %w", m.Name, err)
		}
	}
	return mount{Source: resolveLinks(source), Target: filepath.Clean(m.MountPath), ReadOnly: m.ReadOnly}, nil
}

// resolveLinks follows symbolic links, which would lead elsewhere inside of the container.
func resolveLinks(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path // its absence is reported when it is mounted
}
