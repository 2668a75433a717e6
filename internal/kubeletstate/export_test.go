package kubeletstate

// Encode writes what a file says in a version; see EncodeCPU and EncodeMemory.
func (f *File) Encode(v Version) ([]byte, error) {
	if f.Manager == MemoryManager {
		return EncodeMemory(f.Memory, v)
	}
	return EncodeCPU(f.CPU, v)
}
