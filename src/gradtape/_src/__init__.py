"""The implementation. Nothing here is public: import `gradtape`, `gradtape.math`, `gradtape.nn`, …"""
