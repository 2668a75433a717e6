// Package parts finds or makes the parts of a virtual machine for the end-to-end tests: QEMU, a
// kernel, a root file system with containerd and runc, and the binaries under test.
//
// Parts that take long to make are kept between runs, by version, outside of the tree. They are in
// $XDG_CACHE_HOME/paddock-e2e, or in the directory that PADDOCK_E2E_CACHE names. A directory in the
// cache is either complete or absent. Any of them may be removed between runs.
//
// Missing Debian packages are installed if this process is root and the machine has apt-get.
// Otherwise the error is ErrUnavailable: the tests cannot run on this machine, which is no fault of
// the product.
package parts
