// A package with assembly may have functions without a body: newDeviceManager.
