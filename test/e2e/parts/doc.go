// Package parts finds or makes what a virtual machine of the end-to-end tests is made of: QEMU, a
// kernel, a root file system with containerd and runc, and the binaries under test.
//
// What takes long is kept between runs, by version, outside of the tree: in
// $XDG_CACHE_HOME/paddock-e2e, which PADDOCK_E2E_CACHE can name otherwise. A directory there is
// whole or not there; any of them may be removed at any time between runs.
//
// What Debian packages have is installed if this is root's machine with apt-get. Where neither
// stands, the answer is ErrUnavailable: the tests cannot run there, which is no fault of the
// product.
package parts
